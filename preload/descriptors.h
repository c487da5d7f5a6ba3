/*
 * descriptors.h - what is known of the objects by which a library is told of its work (cuDNN's
 * descriptors), by their address: one word each.
 *
 * Kept from where a program sets one up until it destroys it, recording or not. What was set up
 * beside the wrappers is not known. Any thread, lock-free, async-signal-safe; two threads that set
 * up one descriptor at once, which no library allows, may have one of the two words.
 */
#ifndef LS_DESCRIPTORS_H
#define LS_DESCRIPTORS_H

#include <stdint.h>

/* A word: whose it is, and what its owner has for it. Never 0. */
enum ls_described {
    LS_DESCRIBED_SHAPE = 1, /* the number of a shape (shape.h) */
    LS_DESCRIBED_NODE,      /* of cuDNN's graph API (cudnn_graph.c) */
};
#define LS_DESCRIBED(kind, value) ((uint64_t)(kind) << 56 | (uint64_t)(value))
#define LS_DESCRIBED_KIND(word) ((enum ls_described)((word) >> 56))

/* The descriptor's word; 0: nothing is known of it. */
uint64_t ls_descriptor(const void *address);

/* From here on this is its word. 0, or no room: nothing is known of it any more. */
void ls_descriptor_put(const void *address, uint64_t word);

/* Its word, which is gone from here on. To be called before it is destroyed: another thread may be
 * given the address at once. */
uint64_t ls_descriptor_take(const void *address);

#endif
