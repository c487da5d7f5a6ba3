/*
 * driver.h - the driver's functions of the table, for callers that ask for their addresses.
 */
#ifndef LS_DRIVER_H
#define LS_DRIVER_H

/*
 * Our wrapper of the driver's function that a caller asked for by `symbol` (with a version's suffix
 * or without) and was given; NULL: it is none of the table's. Any thread. For liblayoutspy-dlsym.so
 * (../dlsym) there is the same under the name layoutspy_driver_wrapper.
 */
void *ls_driver_wrapper(const char *symbol, void *function);

/*
 * After cudaGetDriverEntryPoint*(symbol, function): where `*function` is a function of the table,
 * the wrapper takes its place. Any thread; keeps nothing, changes nothing else.
 */
void ls_driver_entry(int status, const char *symbol, void **function);

#endif
