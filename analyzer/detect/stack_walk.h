/*
 * stack_walk.h - the functions of one stack, innermost first, in SQL. The view stack_frame walks
 * all stacks of a trace, whichever is asked for: too slow where each of many is.
 */
#ifndef LAYOUTSPY_DETECT_STACK_WALK_H
#define LAYOUTSPY_DETECT_STACK_WALK_H

/* walk(depth, function) of the stack ?1; a SELECT follows. */
#define LS_STACK_WALK                                                                              \
    "WITH RECURSIVE step(depth, node, frame) AS ("                                                 \
    " SELECT 0, stack.id, stack.frame FROM stack_site JOIN stack ON stack.id = stack_site.stack"   \
    " WHERE stack_site.id = ?1"                                                                    \
    " UNION ALL SELECT step.depth + 1,"                                                            \
    " CASE WHEN inner.inlined_into IS NULL THEN caller.id ELSE step.node END,"                     \
    " CASE WHEN inner.inlined_into IS NULL THEN caller.frame ELSE inner.inlined_into END"          \
    " FROM step JOIN frame AS inner ON inner.id = step.frame"                                      \
    " JOIN stack AS callee ON callee.id = step.node"                                               \
    " LEFT JOIN stack AS caller ON caller.id = callee.parent"                                      \
    " WHERE inner.inlined_into IS NOT NULL OR caller.id IS NOT NULL),"                             \
    " walk(depth, function) AS (SELECT depth, frame.function FROM step"                            \
    " JOIN frame ON frame.id = step.frame) "

#endif
