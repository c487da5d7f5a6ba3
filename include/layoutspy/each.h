/*
 * each.h - a macro for every member of a parenthesised list: what turns a row's parameters into the
 * members of a struct.
 *
 *   LS_EACH(M, (a, b, c))     M(a) M(b) M(c)
 *   LS_EACH(M, ())            nothing
 *   LS_PARAMS_STRUCT((int a, char *b), (a, b))    { int a; char *b; }
 *   LS_PARAMS_STRUCT((void), ())                  { }
 *
 * The struct is laid out as CUPTI hands a call's parameters to a callback: the parameters in order,
 * as members. Lists of up to 16. Preprocessor only.
 */
#ifndef LAYOUTSPY_EACH_H
#define LAYOUTSPY_EACH_H

#define LS_EACH(M, list)                                                                           \
    LS_EACH_DO(LS_EACH_CAT(LS_EACH_, LS_EACH_COUNT list), M, LS_EACH_STRIP list)
#define LS_EACH_DO(each, ...) each(__VA_ARGS__)

#define LS_EACH_STRIP(...) __VA_ARGS__
#define LS_EACH_CAT(a, b) LS_EACH_CAT2(a, b)
#define LS_EACH_CAT2(a, b) a##b
#define LS_EACH_COUNT(...)                                                                         \
    LS_EACH_17TH(__VA_ARGS__ __VA_OPT__(, ) 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, \
                 0)
#define LS_EACH_17TH(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, N, ...) N

#define LS_EACH_0(M, ...)
#define LS_EACH_1(M, a) M(a)
#define LS_EACH_2(M, a, ...) M(a) LS_EACH_1(M, __VA_ARGS__)
#define LS_EACH_3(M, a, ...) M(a) LS_EACH_2(M, __VA_ARGS__)
#define LS_EACH_4(M, a, ...) M(a) LS_EACH_3(M, __VA_ARGS__)
#define LS_EACH_5(M, a, ...) M(a) LS_EACH_4(M, __VA_ARGS__)
#define LS_EACH_6(M, a, ...) M(a) LS_EACH_5(M, __VA_ARGS__)
#define LS_EACH_7(M, a, ...) M(a) LS_EACH_6(M, __VA_ARGS__)
#define LS_EACH_8(M, a, ...) M(a) LS_EACH_7(M, __VA_ARGS__)
#define LS_EACH_9(M, a, ...) M(a) LS_EACH_8(M, __VA_ARGS__)
#define LS_EACH_10(M, a, ...) M(a) LS_EACH_9(M, __VA_ARGS__)
#define LS_EACH_11(M, a, ...) M(a) LS_EACH_10(M, __VA_ARGS__)
#define LS_EACH_12(M, a, ...) M(a) LS_EACH_11(M, __VA_ARGS__)
#define LS_EACH_13(M, a, ...) M(a) LS_EACH_12(M, __VA_ARGS__)
#define LS_EACH_14(M, a, ...) M(a) LS_EACH_13(M, __VA_ARGS__)
#define LS_EACH_15(M, a, ...) M(a) LS_EACH_14(M, __VA_ARGS__)
#define LS_EACH_16(M, a, ...) M(a) LS_EACH_15(M, __VA_ARGS__)

/* The arguments tell whether there are any: a list `(void)` is no list of one. */
#define LS_PARAMS_STRUCT(params, args) LS_EACH_CAT(LS_PARAMS_, LS_EACH_ANY args)(params)
#define LS_EACH_ANY(...) __VA_OPT__(SOME)
#define LS_PARAMS_(params)                                                                         \
    {}
#define LS_PARAMS_SOME(params)                                                                     \
    { LS_EACH(LS_PARAMS_MEMBER, params) }
#define LS_PARAMS_MEMBER(declaration) declaration;

#endif
