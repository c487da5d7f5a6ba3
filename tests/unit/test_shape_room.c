/*
 * test_shape_room.c - more shapes, or descriptors of cuDNN's, than there is room for: known ones
 * stay known, and what is told of the others is counted, not passed over.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cudnn_graph.h"
#include "cudnn_node.h"
#include "operand.h"
#include "shape.h"
#include "state.h"

#define MANY (1 << 17) /* more than are kept */

static struct ls_thread self;
static struct ls_spool_header header;

static uint32_t number_of(int64_t size) {
    struct ls_shape shape = {.kind = LS_SHAPE_TENSOR, .dims = 1, .values = 2, .value = {size, 1}};
    return ls_shape_number(&shape);
}

static void add(uint32_t shape, uint64_t address) {
    ls_operand_add(&self, LS_ROLE_A, 0, shape, address);
}

static void test_more_shapes_than_there_is_room_for(void **state) {
    (void)state;
    int64_t kept = 0;
    ls_session.env.layouts = true;
    ls_session.header = &header;
    for (int64_t i = 1; i <= MANY; i++)
        kept += number_of(i) != LS_SHAPE_NO_ROOM;
    assert_in_range(kept, 1 << 15, MANY - 1);
    assert_int_equal(number_of(MANY), LS_SHAPE_NO_ROOM);
    assert_null(ls_shape_at(LS_SHAPE_NO_ROOM));
    assert_int_equal(ls_shape_at(number_of(7))->value[0], 7);

    add(number_of(7), 0x1000);
    assert_int_equal(self.operand_count, 1);
    assert_int_equal(header.lost[LS_LOST_SHAPES], 0);

    add(number_of(MANY), 0x2000); /* without a shape */
    assert_int_equal(self.operand_count, 2);
    assert_int_equal(LS_OPERAND_SHAPE(self.operand[1].what), 0);
    assert_int_equal(self.operand[1].address, 0x2000);
    assert_int_equal(header.lost[LS_LOST_SHAPES], 1);

    add(number_of(MANY), 0); /* a setting, which is nothing but its shape */
    assert_int_equal(self.operand_count, 2);
    assert_int_equal(header.lost[LS_LOST_SHAPES], 2);

    add(0, 0x3000); /* of which nothing is known: nothing is lost */
    assert_int_equal(self.operand_count, 3);
    assert_int_equal(header.lost[LS_LOST_SHAPES], 2);
}

/* A finished descriptor that was given another one. */
static void *linked(uintptr_t at, int type, int attribute, void *given) {
    void *descriptor = (void *)(0x700000000000 + 64 * at);
    ls_cudnn_created(0, type, &descriptor);
    if (given)
        ls_cudnn_set(0, descriptor, attribute, LS_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &given);
    ls_cudnn_finalized(0, descriptor);
    return descriptor;
}

static void *plan_of(uintptr_t at) {
    void *graph = linked(at, LS_CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, 0, NULL);
    void *engine = linked(at + 1, LS_CUDNN_BACKEND_ENGINE_DESCRIPTOR,
                          LS_CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
    void *config = linked(at + 2, LS_CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                          LS_CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    return linked(at + 3, LS_CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
                  LS_CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
}

/* Operations that are set up and never finished hold all the room there is. */
static void test_a_plan_of_a_graph_without_room(void **state) {
    (void)state;
    uint64_t before = header.lost[LS_LOST_SHAPES];
    ls_cudnn_execute(&self, plan_of(1), NULL);
    assert_int_equal(header.lost[LS_LOST_SHAPES], before);
    for (uintptr_t i = 0; i < 20000; i++) {
        void *descriptor = (void *)(0x710000000000 + 64 * i);
        ls_cudnn_created(0, LS_CUDNN_BACKEND_TENSOR_DESCRIPTOR, &descriptor);
    }
    ls_cudnn_execute(&self, plan_of(11), NULL);
    assert_int_equal(header.lost[LS_LOST_SHAPES], before + 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_more_shapes_than_there_is_room_for),
        cmocka_unit_test(test_a_plan_of_a_graph_without_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
