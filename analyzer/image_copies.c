/*
 * image_copies.c - see image_copies.h. One thread; not async-signal-safe.
 */
#include "image_copies.h"

#include <setjmp.h>
#include <stdio.h>

#include "detect/detect.h"
#include "detect/image_turn.h"
#include "memory/histories.h"
#include "room.h"

/* Some seconds of work; the trace has to be there soon after the program's end. */
#define OPERANDS_MOST 3000000

static const char layout[][8] = {[0] = "nchw", [2] = "nhwc"};

static void put(struct ls_relayout *r, int written, void *context) {
    int read = ls_relayout_turn(r), turn = read ? read : written;
    if (turn)
        ls_db_put(context, LS_PUT_IMAGE_COPY, "iss", r->call, layout[1 - turn], layout[1 + turn]);
}

/* Nothing to look for where no image was told of, or none was copied by a kernel that is known. */
static bool has_images(struct ls_trace_db *db) {
    return ls_db_number(db, "SELECT EXISTS(SELECT 1 FROM kernel_layout) AND EXISTS(SELECT 1 FROM"
                            " shape WHERE kind = 'tensor' AND layout IN ('nchw', 'nhwc'))") != 0;
}

static bool turns(const struct ls_flow *flow) {
    bool turned = false;
    for (size_t i = 0; flow && i < flow->count; i++)
        turned |= flow->relayout[i].turned;
    return turned;
}

static void skip(struct ls_trace_db *db, const char *why) {
    ls_db_put(db, LS_PUT_COVERAGE, "sss", "image-copies", "off", why);
}

void ls_image_copies_build(struct ls_trace_db *db) {
    static struct ls_detect d;
    static struct ls_histories histories;
    jmp_buf rescue;
    if (ls_db_error(db) || !has_images(db))
        return;
    ls_db_exec(db, "DELETE FROM image_copy");
    if (ls_db_number(db, "SELECT COUNT(*) FROM operand") > OPERANDS_MOST) {
        skip(db, "too many operands to tell which copies turn images: their layouts are told by "
                 "what the copies themselves were told");
        return;
    }
    histories = (struct ls_histories){.db = db->db};
    d = (struct ls_detect){.db = db->db, .histories = &histories};
    if (setjmp(rescue) == 0) {
        ls_room_rescue(&rescue);
        const struct ls_flow *flow = ls_detect_flow(&d);
        const struct ls_convolutions *convs = turns(flow) ? ls_detect_convolutions(&d) : NULL;
        if (convs)
            ls_written_turns(flow, convs, put, db);
        ls_convolutions_free(d.convolutions);
        ls_flow_free(d.flow);
        ls_histories_free(&histories);
        ls_room_rescue(NULL);
        return;
    }
    ls_room_rescue(NULL);
    ls_db_end_reading(db);
    skip(db, "the collector had no memory to tell which copies turn images");
}
