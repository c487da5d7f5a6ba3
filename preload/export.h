/*
 * export.h - the few names that the target may see: the table's, and those marked here by hand.
 *
 * The build hides everything else (-fvisibility=hidden, --exclude-libs,ALL). By hand: dlclose
 * (modules.c), layoutspy_version (describe.c), layoutspy_step (step.c),
 * layoutspy_mode (mode.c), InitializeInjectionNvtx2 (nvtx.c), InitializeInjection
 * (cupti/inject.c), layoutspy_driver_wrapper (driver.c). A test compares `nm -D` with the
 * table and these.
 */
#ifndef LS_EXPORT_H
#define LS_EXPORT_H

#define LS_EXPORT __attribute__((visibility("default")))

#endif
