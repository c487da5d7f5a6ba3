/*
 * arena.c - the memory of one device. See arena.h.
 *
 * The shadow is a sparse memfd, mapped once. Its descriptor stays open under a high number for
 * other processes to open (ipc.c), and nothing here depends on it: a program which closes or reuses
 * descriptors does no harm.
 */
#include "arena.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define UNITS (ARENA_PAGE / ARENA_UNIT)
#define SMALL_MAX (1ull << 20)

/* Free pages in a row. */
struct extent {
    struct tree_node by_start; /* key: start */
    struct tree_node by_size;  /* key: size, then start */
};

/* A page shared by small allocations. */
struct small_page {
    struct tree_node node;              /* key: offset of the page */
    struct small_page *next, *previous; /* in arena->partial, while free_units > 0 */
    unsigned free_units;
    uint64_t taken[UNITS / 64]; /* bit = unit */
};

bool sd_arena_holds(const struct arena *arena, const void *address) {
    return arena->base && (uintptr_t)address - (uintptr_t)arena->base < arena->size;
}

static void add_extent(struct arena *arena, uint64_t start, uint64_t size) {
    struct extent *e = calloc(1, sizeof *e);
    if (!e)
        abort();
    e->by_start.key = start;
    e->by_size.key = size;
    e->by_size.key2 = start;
    sd_tree_insert(&arena->free_by_start, &e->by_start);
    sd_tree_insert(&arena->free_by_size, &e->by_size);
}

static void drop_extent(struct arena *arena, struct extent *e) {
    sd_tree_remove(&arena->free_by_start, &e->by_start);
    sd_tree_remove(&arena->free_by_size, &e->by_size);
    free(e);
}

/* The file's memory and, after it, the table that other processes read. */
static bool map_file(struct arena *arena, int fd, uint64_t size) {
    void *view = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (view == MAP_FAILED)
        return false;
    void *table = mmap(NULL, ARENA_TABLE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)size);
    if (table == MAP_FAILED) {
        munmap(view, size);
        return false;
    }
    madvise(table, ARENA_TABLE, MADV_DONTFORK);
    arena->view = view;
    arena->table = table;
    return true;
}

/* Out of the way of programs that count on low numbers. */
static void keep(struct arena *arena, int fd) {
    struct stat st;
    arena->fd = fcntl(fd, F_DUPFD_CLOEXEC, 700);
    arena->inode = fstat(fd, &st) == 0 ? st.st_ino : 0;
    close(fd);
}

static bool map(struct arena *arena, uint64_t size) {
    int fd = memfd_create("simulated-device", MFD_CLOEXEC);
    if (fd < 0)
        return false;
    if (ftruncate(fd, (off_t)(size + ARENA_TABLE)) != 0 || !map_file(arena, fd, size)) {
        close(fd);
        return false;
    }
    keep(arena, fd);
    char *view = arena->view;
    void *base = mmap(NULL, size + ARENA_PAGE, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        munmap(view, size);
        munmap(arena->table, ARENA_TABLE);
        close(arena->fd);
        return false;
    }
    /* Neither core dumps nor fork children see the device. */
    madvise(view, size, MADV_DONTDUMP);
    madvise(view, size, MADV_DONTFORK);
    arena->base = (char *)(((uintptr_t)base + ARENA_PAGE - 1) & ~(ARENA_PAGE - 1));
    arena->size = size;
    return true;
}

bool sd_arena_open(struct arena *arena, uint64_t capacity) {
    capacity &= ~(ARENA_PAGE - 1);
    /* Four times, so that holes in the addresses never cost memory; less under `ulimit -v`. */
    if (!map(arena, 4 * capacity) && !map(arena, capacity))
        return false;
    arena->capacity = capacity;
    add_extent(arena, 0, arena->size);
    return true;
}

uint64_t sd_arena_reserve(struct arena *arena, uint64_t bytes) {
    struct tree_node *node = sd_tree_ceiling(&arena->free_by_size, bytes, 0);
    if (!node)
        return UINT64_MAX;
    struct extent *e = TREE_OWNER(node, struct extent, by_size);
    uint64_t start = e->by_start.key, size = e->by_size.key;
    drop_extent(arena, e);
    if (size > bytes)
        add_extent(arena, start + bytes, size - bytes);
    return start;
}

static void use(struct arena *arena, uint64_t bytes) {
    arena->used = bytes;
    if (arena->told)
        *arena->told = bytes;
}

bool sd_arena_back(struct arena *arena, uint64_t bytes) {
    if (bytes > arena->capacity - arena->used)
        return false;
    use(arena, arena->used + bytes);
    return true;
}

static uint64_t take_pages(struct arena *arena, uint64_t bytes) {
    if (!sd_arena_back(arena, bytes))
        return UINT64_MAX;
    uint64_t start = sd_arena_reserve(arena, bytes);
    if (start == UINT64_MAX)
        use(arena, arena->used - bytes);
    return start;
}

void sd_arena_unback(struct arena *arena, uint64_t offset, uint64_t bytes) {
    madvise(arena->view + offset, bytes, MADV_REMOVE);
    use(arena, arena->used - bytes);
}

void sd_arena_unreserve(struct arena *arena, uint64_t start, uint64_t bytes) {
    struct tree_node *node = start ? sd_tree_floor(&arena->free_by_start, start - 1, 0) : NULL;
    if (node) {
        struct extent *left = TREE_OWNER(node, struct extent, by_start);
        if (left->by_start.key + left->by_size.key == start) {
            start = left->by_start.key;
            bytes += left->by_size.key;
            drop_extent(arena, left);
        }
    }
    node = sd_tree_ceiling(&arena->free_by_start, start + bytes, 0);
    if (node && node->key == start + bytes) {
        struct extent *right = TREE_OWNER(node, struct extent, by_start);
        bytes += right->by_size.key;
        drop_extent(arena, right);
    }
    add_extent(arena, start, bytes);
}

static void give_pages(struct arena *arena, uint64_t start, uint64_t bytes) {
    sd_arena_unback(arena, start, bytes);
    sd_arena_unreserve(arena, start, bytes);
}

static bool taken(const struct small_page *page, unsigned unit) {
    return page->taken[unit / 64] >> (unit % 64) & 1;
}

static void mark(struct small_page *page, unsigned unit, unsigned units, bool value) {
    for (unsigned i = unit; i < unit + units; i++)
        if (value)
            page->taken[i / 64] |= 1ull << (i % 64);
        else
            page->taken[i / 64] &= ~(1ull << (i % 64));
}

/* The first unit of a free run, or UNITS. */
static unsigned find_run(const struct small_page *page, unsigned units) {
    unsigned run = 0;
    for (unsigned i = 0; i < UNITS; i++) {
        if (i % 64 == 0 && page->taken[i / 64] == UINT64_MAX) {
            run = 0;
            i += 63;
        } else {
            run = taken(page, i) ? 0 : run + 1;
            if (run == units)
                return i + 1 - units;
        }
    }
    return UNITS;
}

static void link_partial(struct arena *arena, struct small_page *page) {
    page->previous = NULL;
    page->next = arena->partial;
    if (page->next)
        page->next->previous = page;
    arena->partial = page;
}

static void unlink_partial(struct arena *arena, struct small_page *page) {
    if (page->previous)
        page->previous->next = page->next;
    else
        arena->partial = page->next;
    if (page->next)
        page->next->previous = page->previous;
}

static uint64_t take_units(struct arena *arena, struct small_page *page, unsigned unit,
                           unsigned units) {
    mark(page, unit, units, true);
    page->free_units -= units;
    if (page->free_units == 0)
        unlink_partial(arena, page);
    return page->node.key + unit * ARENA_UNIT;
}

static uint64_t alloc_small(struct arena *arena, uint64_t bytes) {
    unsigned units = (unsigned)((bytes + ARENA_UNIT - 1) / ARENA_UNIT);
    for (struct small_page *page = arena->partial; page; page = page->next) {
        unsigned unit = page->free_units >= units ? find_run(page, units) : UNITS;
        if (unit < UNITS)
            return take_units(arena, page, unit, units);
    }
    uint64_t start = take_pages(arena, ARENA_PAGE);
    if (start == UINT64_MAX)
        return start;
    struct small_page *page = calloc(1, sizeof *page);
    if (!page)
        abort();
    page->node.key = start;
    page->free_units = UNITS;
    sd_tree_insert(&arena->small, &page->node);
    link_partial(arena, page);
    return take_units(arena, page, 0, units);
}

static uint64_t whole_pages(uint64_t bytes) {
    return (bytes + ARENA_PAGE - 1) & ~(ARENA_PAGE - 1);
}

uint64_t sd_arena_alloc(struct arena *arena, uint64_t bytes) {
    if (bytes > arena->capacity)
        return UINT64_MAX;
    return bytes <= SMALL_MAX ? alloc_small(arena, bytes) : take_pages(arena, whole_pages(bytes));
}

void sd_arena_free(struct arena *arena, uint64_t offset, uint64_t bytes) {
    if (bytes > SMALL_MAX) {
        give_pages(arena, offset, whole_pages(bytes));
        return;
    }
    struct tree_node *node = sd_tree_floor(&arena->small, offset, 0);
    struct small_page *page = TREE_OWNER(node, struct small_page, node);
    unsigned units = (unsigned)((bytes + ARENA_UNIT - 1) / ARENA_UNIT);
    if (page->free_units == 0)
        link_partial(arena, page);
    mark(page, (unsigned)((offset - node->key) / ARENA_UNIT), units, false);
    page->free_units += units;
    if (page->free_units == UNITS) {
        unlink_partial(arena, page);
        sd_tree_remove(&arena->small, node);
        give_pages(arena, node->key, ARENA_PAGE);
        free(page);
    }
}
