/*
 * stack_walk.h - the frames of one stack, as SQL. Any thread.
 *
 * As the view stack_frame (schema_views.sql), but from one stack alone: the view walks all of them,
 * which takes a second where there are thousands. Frames that are inlined into others are left out.
 */
#ifndef LAYOUTSPY_STACK_WALK_H
#define LAYOUTSPY_STACK_WALK_H

/* `walk`, with `depth` (0: the innermost) and `node` (stack.id). Parameter: stack_site.id. */
#define LS_STACK_WALK                                                                              \
    "WITH RECURSIVE walk(depth, node) AS ("                                                        \
    " SELECT 0, stack FROM stack_site WHERE id = ? AND stack IS NOT NULL"                          \
    " UNION ALL SELECT depth + 1, stack.parent FROM walk JOIN stack ON stack.id = node"            \
    " WHERE stack.parent IS NOT NULL) "

#endif
