/*
 * driver.h - the driver's functions of the table, for callers that ask the runtime for addresses.
 */
#ifndef LS_DRIVER_H
#define LS_DRIVER_H

/*
 * After cudaGetDriverEntryPoint*(symbol, function): where `*function` is a function of the table,
 * the wrapper takes its place. Any thread; keeps nothing, changes nothing else.
 */
void ls_driver_entry(int status, const char *symbol, void **function);

#endif
