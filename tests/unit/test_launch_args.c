/*
 * test_launch_args.c - what launches' arguments tell: copies by their names and numbers, addresses
 * among the arguments of others, and garbage, which tells nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "copy_kernels.h"
#include "kernels.h"
#include "known.h"
#include "launch_args.h"
#include "layoutspy/shape.h"
#include "list_kernels.h"
#include "shape.h"
#include "state.h"

#define DEVICE 0x7f4000000000ull
#define BYTES (64ull << 20)
#define DIRECT "23direct_copy_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE1_clEvENKUlvE5_clEvEUlfE_"
#define STRIDED                                                                                    \
    "_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastIZZZNS0_" DIRECT     \
    "EEvS4_RKT_EUliE_EEviT1_"
#define STRIDED_CAST                                                                               \
    "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_15gpu_kernel_implIZZZNS0_" DIRECT            \
    "EEvS4_RKT_EUliE_EEviT1_"
#define TO_HALF                                                                                    \
    "_ZN2at6native29vectorized_elementwise_kernelILi8EZNS0_24float16_copy_kernel_cudaERNS_"        \
    "18TensorIteratorBaseEEUlfE_St5arrayIPcLm2EEEEviT0_T1_"
#define UNROLLED                                                                                   \
    "_ZN2at6native27unrolled_elementwise_kernelIZZZNS0_" DIRECT                                    \
    "St5arrayIPcLm2EELi4E23TrivialOffsetCalculatorILi1EjESB_NS0_6memory12LoadWithCastILi1EEENSC_"  \
    "13StoreWithCastILi1EEEEEviT_T0_T2_T3_T4_T5_"
#define CAT                                                                                        \
    "_ZN2at6native40_GLOBAL__N__0f1a8107_8_Shape_cu_49f7391c19CatArrayBatchedCopyINS1_"            \
    "10OpaqueTypeILj4EEEjLi2ELi64ELi64EEEvPT_NS1_25CatArrInputTensorMetadataIS5_T0_XT2_EXT3_EEE"   \
    "NS1_16TensorSizeStrideIS8_Lj4EEEiS8_"

static struct ls_thread self;

static int setup(void **state) {
    (void)state;
    ls_session.env.layouts = true;
    ls_known_mark_device(DEVICE, BYTES);
    return 0;
}

static int begin(void **state) {
    (void)state;
    self.operand_count = 0;
    return 0;
}

/* A closure of elementwise_kernel as the device has it. */
struct closure {
    int32_t dims;
    uint32_t size[25][3], stride[25][2];
    uint64_t address[2];
    int8_t functor, type[2];
};

static void divide(uint32_t out[3], uint32_t by) {
    uint32_t shift = 0;
    while (1ull << shift < by)
        shift++;
    out[0] = by;
    out[1] = (uint32_t)(((1ull << 32) * ((1ull << shift) - by)) / by + 1);
    out[2] = shift;
}

/* 96 x 64 from 64 x 96 of float32. */
static struct closure transpose(void) {
    struct closure c = {.dims = 2, .address = {DEVICE + 65536, DEVICE}, .type = {6, 6}};
    divide(c.size[0], 64);
    divide(c.size[1], 96);
    c.stride[0][0] = 4, c.stride[0][1] = 384;
    c.stride[1][0] = 256, c.stride[1][1] = 4;
    return c;
}

static enum ls_copy_result tell(const char *name, int32_t count, struct closure *closure) {
    struct ls_copy_kernel kernel = ls_copy_kernel_named(name);
    void *args[] = {&count, closure};
    return ls_copy_kernel_tell(&self, &kernel, args, 1, true);
}

static const struct ls_shape *shape(uint32_t operand) {
    return ls_shape_at(LS_OPERAND_SHAPE(self.operand[operand].what));
}

static void test_a_name_tells_the_form_and_the_types(void **state) {
    (void)state;
    struct ls_copy_kernel kernel = ls_copy_kernel_named(STRIDED);
    assert_int_equal(kernel.form, LS_COPY_STRIDED);
    assert_int_equal(kernel.src_dtype, LS_DTYPE_FLOAT32);
    assert_int_equal(kernel.dst_dtype, LS_DTYPE_FLOAT32);
    kernel = ls_copy_kernel_named(TO_HALF);
    assert_int_equal(kernel.form, LS_COPY_DENSE);
    assert_int_equal(kernel.src_dtype, LS_DTYPE_FLOAT32);
    assert_int_equal(kernel.dst_dtype, LS_DTYPE_FLOAT16);
    assert_int_equal(ls_copy_kernel_named(STRIDED_CAST).form, LS_COPY_STRIDED_CAST);
    assert_int_equal(ls_copy_kernel_named(UNROLLED).form, LS_COPY_DENSE_CAST);
    kernel = ls_copy_kernel_named(CAT);
    assert_int_equal(kernel.form, LS_COPY_CAT);
    assert_int_equal(kernel.batch, 64);
    assert_int_equal(kernel.dims, 2);
}

static void test_other_names_are_none(void **state) {
    (void)state;
    static const char *const names[] = {
        "",
        "_ZN2at6native",
        "_ZN2at6native18elementwise_kernelI",
        "_ZN2at6native10OpaqueTypeILj",
        "_ZN2at6native19CatArrayBatchedCopyINS1_10OpaqueTypeILj4EEEjLi9ELi64ELi64EEE",
        "_ZN2at6native19CatArrayBatchedCopyINS1_10OpaqueTypeILj4EEEjLi2ELi64ELi3EEE",
        "_ZN2at6native19CatArrayBatchedCopyINS1_10OpaqueTypeILj99999999999999999999EEE",
        "_ZN2at6native24index_elementwise_kernelILi128ELi4EZ_copy_kernel_cudaEUliE_EEviT1_",
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEE",
        "triton_poi_fused_clone_0",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(ls_copy_kernel_named(names[i]).form, LS_COPY_NONE);
}

static void test_a_strided_copy_is_told(void **state) {
    (void)state;
    struct closure closure = transpose();
    assert_int_equal(tell(STRIDED, 6144, &closure), LS_COPY_TOLD);
    assert_int_equal(self.operand_count, 2);
    assert_int_equal(LS_OPERAND_ROLE(self.operand[0].what), LS_ROLE_DST);
    assert_int_equal(LS_OPERAND_ROLE(self.operand[1].what), LS_ROLE_SRC);
    assert_int_equal(self.operand[0].address, DEVICE + 65536);
    const int64_t dst[] = {96, 64, 64, 1}, src[] = {96, 64, 1, 96};
    assert_memory_equal(shape(0)->value, dst, sizeof dst);
    assert_memory_equal(shape(1)->value, src, sizeof src);
    assert_int_equal(shape(0)->flags, 0);
    assert_int_equal(shape(0)->dtype, LS_DTYPE_FLOAT32);
}

static void test_types_of_a_cast_are_among_the_arguments(void **state) {
    (void)state;
    struct closure closure = transpose();
    closure.type[0] = 15;
    assert_int_equal(tell(STRIDED_CAST, 6144, &closure), LS_COPY_TOLD);
    assert_int_equal(shape(0)->dtype, LS_DTYPE_BFLOAT16);
    assert_int_equal(shape(0)->value[3], 2); /* four bytes apart */
    closure.type[1] = 99;
    assert_int_equal(tell(STRIDED_CAST, 6144, &closure), LS_COPY_UNLIKE);
    closure.type[1] = -1;
    assert_int_equal(tell(STRIDED_CAST, 6144, &closure), LS_COPY_UNLIKE);
}

static void test_numbers_that_do_not_fit_tell_nothing(void **state) {
    (void)state;
    struct closure closure = transpose();
    assert_int_equal(tell(STRIDED, 6143, &closure), LS_COPY_UNLIKE);
    assert_int_equal(tell(STRIDED, 0, &closure), LS_COPY_UNLIKE);
    assert_int_equal(tell(STRIDED, -6144, &closure), LS_COPY_UNLIKE);
    closure.dims = 26;
    assert_int_equal(tell(STRIDED, 6144, &closure), LS_COPY_UNLIKE);
    closure.dims = -1;
    assert_int_equal(tell(STRIDED, 6144, &closure), LS_COPY_UNLIKE);
    closure = transpose();
    closure.size[1][1]++; /* not what the device divides by */
    assert_int_equal(tell(STRIDED, 6144, &closure), LS_COPY_UNLIKE);
    closure = transpose();
    closure.stride[1][1] = 6; /* within elements */
    assert_int_equal(tell(STRIDED, 6144, &closure), LS_COPY_UNLIKE);
    assert_int_equal(self.operand_count, 0);
}

static void test_memory_that_is_not_recorded_tells_nothing(void **state) {
    (void)state;
    struct closure closure = transpose();
    closure.address[1] = 0x560000000000;
    assert_int_equal(tell(STRIDED, 6144, &closure), LS_COPY_ELSEWHERE);
    closure.address[1] = DEVICE + BYTES - 4096; /* its end is beyond */
    assert_int_equal(tell(STRIDED, 6144, &closure), LS_COPY_ELSEWHERE);
    closure.address[1] = UINT64_MAX;
    assert_int_equal(tell(STRIDED, 6144, &closure), LS_COPY_ELSEWHERE);
    assert_int_equal(self.operand_count, 0);
}

/* Each kind of kernel, on arguments of any content: also such as are nearly right. */
static void test_garbage_is_survived(void **state) {
    (void)state;
    static const char *const names[] = {STRIDED, STRIDED_CAST, TO_HALF, UNROLLED, CAT};
    static uint64_t block[7][1024];
    uint32_t told = 0;
    srandom(1);
    for (int round = 0; round < 50000; round++) {
        struct ls_copy_kernel kernel = ls_copy_kernel_named(names[round % 5]);
        void *args[7];
        for (int i = 0; i < 7; i++) {
            args[i] = block[i];
            for (int w = 0; w < 16; w++) {
                uint64_t any = (uint64_t)random() << 33 ^ (uint64_t)random();
                block[i][random() % 1024] = w % 4 == 0   ? any
                                            : w % 4 == 1 ? any % 8
                                            : w % 4 == 2 ? DEVICE + any % BYTES
                                                         : 0;
            }
        }
        struct closure near = transpose();
        if (round % 3 == 0)
            memcpy(block[1], &near, sizeof near);
        ((char *)block[1])[random() % sizeof near] ^= (char)random();
        int32_t count = round % 2 ? 6144 : (int32_t)random();
        memcpy(block[0], &count, sizeof count);
        self.operand_count = 0;
        if (ls_copy_kernel_tell(&self, &kernel, args, (uint32_t)random() % 80, round % 7 == 0) !=
            LS_COPY_TOLD)
            assert_int_equal(self.operand_count, 0);
        else
            told++;
    }
    assert_true(told > 0);
}

static void test_sizes_rule_a_kernel_out(void **state) {
    (void)state;
    struct ls_copy_kernel kernel = ls_copy_kernel_named(STRIDED);
    uint16_t right[] = {4, 528}, wrong[] = {4, 500}, unknown[] = {4, 0};
    assert_true(ls_copy_kernel_fits(&kernel, right, 2));
    assert_true(ls_copy_kernel_fits(&kernel, unknown, 2));
    assert_true(ls_copy_kernel_fits(&kernel, NULL, 0));
    assert_false(ls_copy_kernel_fits(&kernel, wrong, 2));
    assert_false(ls_copy_kernel_fits(&kernel, right, 1));
}

/* ---- addresses among the arguments ---- */

static void launch_buffer(uint64_t *buffer, size_t size, const void *function) {
    void *extra[] = {(void *)1, buffer, (void *)2, &size, NULL};
    self.operand_count = 0;
    ls_launch_operands(&self, &(struct ls_launch){.function = function,
                                                  .extra = extra,
                                                  .name = "triton_poi_fused_add_0",
                                                  .number = 2,
                                                  .kind = LS_LAUNCH_DRIVER});
}

static void test_addresses_in_a_buffer_are_told_once(void **state) {
    (void)state;
    uint64_t buffer[100] = {
        [3] = DEVICE + 8, [5] = 0x560000000000, [7] = DEVICE + 8, [99] = DEVICE};
    launch_buffer(buffer, sizeof buffer, "a");
    assert_int_equal(self.operand_count, 2);
    assert_int_equal(self.operand[0].address, DEVICE + 8);
    assert_int_equal(self.operand[0].what, LS_OPERAND(LS_ROLE_ARGUMENT, 0, 0));
    assert_int_equal(self.operand[1].address, DEVICE);
    launch_buffer(buffer, 99 * 8, "b"); /* not beyond its end */
    assert_int_equal(self.operand_count, 1);
}

static void test_no_more_than_eight(void **state) {
    (void)state;
    uint64_t buffer[100];
    for (int i = 0; i < 100; i++)
        buffer[i] = DEVICE + 16u * (uint64_t)i;
    launch_buffer(buffer, sizeof buffer, "c");
    assert_int_equal(self.operand_count, 8);
}

static void test_words_that_never_held_an_address_are_looked_at_now_and_then(void **state) {
    (void)state;
    uint64_t buffer[100] = {[3] = DEVICE};
    int seen = 0;
    for (int i = 0; i < 640; i++) {
        buffer[50] = i < 16 ? 0 : DEVICE + 512;
        launch_buffer(buffer, sizeof buffer, "d");
        assert_in_range(self.operand_count, 1, 2);
        seen += self.operand_count == 2;
    }
    assert_int_equal(seen, 640 - 64); /* from the first of every 64 on */
}

static void test_a_handle_that_comes_again_is_another_kernel(void **state) {
    (void)state;
    uint64_t buffer[40] = {[30] = DEVICE};
    for (int i = 0; i < 20; i++)
        launch_buffer(buffer, sizeof buffer, "e");
    ls_launch_handle("e", false);
    buffer[20] = DEVICE + 64;
    launch_buffer(buffer, sizeof buffer, "e"); /* all is looked at, as of a new one */
    assert_int_equal(self.operand_count, 2);
    ls_launch_forget();
    buffer[10] = DEVICE + 128;
    launch_buffer(buffer, sizeof buffer, "e");
    assert_int_equal(self.operand_count, 3);
}

/* As another thread may find while this one is about to read: no argument is looked at. */
static void test_a_form_that_was_given_up_reads_nothing(void **state) {
    (void)state;
    struct ls_copy_kernel none = ls_copy_kernel_named("_Z1kPf");
    assert_int_equal(ls_copy_kernel_tell(&self, &none, NULL, 1, false), LS_COPY_ELSEWHERE);
    assert_int_equal(self.operand_count, 0);
}

static uint32_t told_of(const char *function, struct closure *closure) {
    int32_t count = 96 * 64;
    void *args[] = {&count, closure};
    self.operand_count = 0;
    ls_launch_operands(&self, &(struct ls_launch){.function = function,
                                                  .args = args,
                                                  .name = STRIDED,
                                                  .number = 5,
                                                  .kind = LS_LAUNCH_DRIVER});
    return self.operand_count;
}

/* That some library has gone makes no known kernel another one: threads that are about to read by
 * what was known, and not by the name, would run into what is not there. */
static void test_what_was_found_unlike_stays_so(void **state) {
    (void)state;
    struct closure good = transpose(), bad = good;
    bad.size[0][1] ^= 5;
    assert_int_equal(told_of("g", &good), 2);
    assert_int_equal(told_of("h", &bad), 0);
    assert_int_equal(told_of("h", &good), 0);
    ls_launch_forget();
    assert_int_equal(told_of("h", &good), 0);
    assert_int_equal(told_of("g", &good), 2);
    ls_launch_handle("h", false); /* another kernel */
    assert_int_equal(told_of("h", &good), 2);
}

static void test_without_sizes_nothing_is_looked_at(void **state) {
    (void)state;
    uint64_t value = DEVICE;
    void *args[] = {&value};
    for (int i = 0; i < 3; i++)
        ls_launch_operands(&self, &(struct ls_launch){.function = "f",
                                                      .args = args,
                                                      .name = "_Z1kPf",
                                                      .number = 4,
                                                      .kind = LS_LAUNCH_DRIVER});
    assert_int_equal(self.operand_count, 0);
}

static void test_extras_that_are_not_known_end_the_look(void **state) {
    (void)state;
    void *odd[] = {(void *)9, (void *)8, NULL}, *none[] = {NULL};
    size_t huge = SIZE_MAX;
    uint64_t word = DEVICE;
    void *large[] = {(void *)1, &word, (void *)2, &huge, NULL};
    void *const *all[] = {odd, none, large};
    for (int i = 0; i < 3; i++)
        ls_launch_operands(&self, &(struct ls_launch){.function = "g",
                                                      .extra = all[i],
                                                      .name = "k",
                                                      .number = 6,
                                                      .kind = LS_LAUNCH_DRIVER});
    assert_int_equal(self.operand_count, 0);
}

/* ---- lists of tensors ---- */

#define OF_LISTS(structure, functor)                                                               \
    "_ZN2at6native54_GLOBAL__N__3f1cb3cd_22_ForeachBinaryOpList_cu_6b7e9b8f25multi_tensor_apply_"  \
    "kernelINS1_" structure "EENS1_" functor "JfEEEvT_T0_DpT1_"
#define ADD_IN_PLACE                                                                               \
    OF_LISTS("18TensorListMetadataILi2EE", "24BinaryOpListAlphaFunctorIfLi2ELi2ELi0EEE")

/* TensorListMetadata<2> */
struct two_lists {
    uint64_t address[2][64];
    int64_t elements[64];
    uint8_t tensor[320];
    int32_t chunk[320], start;
};

static void fill(struct two_lists *lists, uint32_t tensors) {
    memset(lists, 0, sizeof *lists);
    for (uint32_t i = 0; i < 64; i++) { /* what is behind the last one is left from before */
        lists->address[0][i] = DEVICE + 4096 * i;
        lists->address[1][i] = DEVICE + (1u << 20) + 4096 * i;
        lists->elements[i] = i < tensors ? 1000 + (int64_t)i : -1;
    }
    for (uint32_t i = 0; i < 320; i++)
        lists->tensor[i] = (uint8_t)(i / 2);
}

static void test_names_of_lists(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint8_t lists, written, read;
    } names[] = {
        {ADD_IN_PLACE, 2, 1, 3},
        {OF_LISTS("18TensorListMetadataILi3EE",
                  "24BinaryOpListAlphaFunctorIN3c104HalfELi3ELi2ELi2EEE"),
         3, 4, 3},
        {OF_LISTS("18TensorListMetadataILi2EE", "11CopyFunctorIN3c108BFloat16EfLi2ELi1ELi1EEE"), 2,
         2, 1},
        {OF_LISTS("18TensorListMetadataILi1EE", "11ZeroFunctorIfLi1ELi1ELi0EEE"), 1, 1, 0},
        {OF_LISTS("18TensorListMetadataILi1EE",
                  "13LpNormFunctorIfLNS0_8NormTypeE2EfLi1ELi1ELi0EEE"),
         1, 0, 1},
        {OF_LISTS("28TensorListScalarListMetadataIfLi4EE",
                  "28PointwiseOpScalarListFunctorIfLi4ELi3ELi3EEE"),
         4, 8, 7},
        {OF_LISTS("28TensorListScalarListMetadataIN3c107complexIdEELi1EE",
                  "25BinaryOpScalarListFunctorIS6_Li1ELi1ELi0EEE"),
         1, 1, 1},
        {OF_LISTS("32FusedOptimizerTensorListMetadataILi5EE",
                  "20FusedAdamMathFunctorIfLi5ELNS0_9ADAM_MODEE0ELb1EEE"),
         5, 29, 29},
        {OF_LISTS("18TensorListMetadataILi2EE", "8MysteryIfEE"), 2, 0, 0},
        {OF_LISTS("18TensorListMetadataILi9EE", "11ZeroFunctorIfLi9ELi1ELi0EEE"), 0, 0, 0},
        {"_ZN2at6native25multi_tensor_apply_kernelI", 0, 0, 0},
        {"_ZN2at6native25multi_tensor_apply_kernelINS1_18TensorListMetadataI", 0, 0, 0},
        {STRIDED, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct ls_list_kernel kernel = ls_list_kernel_named(names[i].name);
        assert_int_equal(kernel.lists, names[i].lists);
        if (kernel.lists) {
            assert_int_equal(kernel.written, names[i].written);
            assert_int_equal(kernel.read, names[i].read);
        }
    }
    assert_int_equal(ls_list_kernel_named(names[2].name).dtype, LS_DTYPE_BFLOAT16);
    assert_int_equal(ls_list_kernel_named(names[6].name).dtype, LS_DTYPE_UNKNOWN);
}

static void test_tensors_in_lists_are_told(void **state) {
    (void)state;
    static struct two_lists lists;
    struct ls_list_kernel kernel = ls_list_kernel_named(ADD_IN_PLACE);
    assert_false(ls_list_kernel_fits(&kernel, sizeof lists - 16));
    assert_true(ls_list_kernel_fits(&kernel, sizeof lists));
    assert_int_equal(kernel.blocks_at, offsetof(struct two_lists, tensor));
    fill(&lists, 3);
    assert_int_equal(ls_list_kernel_tell(&self, &kernel, &lists, 5), LS_COPY_TOLD);
    assert_int_equal(self.operand_count, 6);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(self.operand[i].address, lists.address[0][i]);
        assert_int_equal(LS_OPERAND_ROLE(self.operand[i].what), LS_ROLE_BUFFER);
        assert_int_equal(shape(i)->value[0], 1000 + i);
        assert_int_equal(shape(i)->dtype, LS_DTYPE_FLOAT32);
        assert_int_equal(self.operand[3 + i].address, lists.address[1][i]);
        assert_int_equal(LS_OPERAND_ROLE(self.operand[3 + i].what), LS_ROLE_INPUT);
    }
}

/* The last one says that there were more. */
static void test_no_more_tensors_than_a_record_has_room_for(void **state) {
    (void)state;
    static struct two_lists lists;
    struct ls_list_kernel kernel = ls_list_kernel_named(ADD_IN_PLACE);
    assert_true(ls_list_kernel_fits(&kernel, sizeof lists));
    fill(&lists, 64);
    assert_int_equal(ls_list_kernel_tell(&self, &kernel, &lists, 128), LS_COPY_TOLD);
    assert_int_equal(self.operand_count, LS_OPERANDS_MOST);
    assert_int_equal(LS_OPERAND_ROLE(self.operand[63].what), LS_ROLE_BUFFER);
    assert_true(LS_OPERAND_FLAGS(self.operand[63].what) & LS_OPERAND_MORE);
}

static void test_lists_that_do_not_fit_tell_nothing(void **state) {
    (void)state;
    static struct two_lists lists;
    struct ls_list_kernel kernel = ls_list_kernel_named(ADD_IN_PLACE);
    assert_true(ls_list_kernel_fits(&kernel, sizeof lists));
    fill(&lists, 3);
    assert_int_equal(ls_list_kernel_tell(&self, &kernel, &lists, 0), LS_COPY_UNLIKE);
    assert_int_equal(ls_list_kernel_tell(&self, &kernel, &lists, 321), LS_COPY_UNLIKE);
    assert_int_equal(ls_list_kernel_tell(&self, &kernel, &lists, 8), LS_COPY_UNLIKE);
    assert_int_equal(ls_list_kernel_tell(&self, &kernel, &lists, 300), LS_COPY_UNLIKE);
    lists.tensor[0] = 1;
    assert_int_equal(ls_list_kernel_tell(&self, &kernel, &lists, 5), LS_COPY_UNLIKE);
    fill(&lists, 3);
    lists.address[0][0] = 0x560000000000;
    assert_int_equal(ls_list_kernel_tell(&self, &kernel, &lists, 5), LS_COPY_ELSEWHERE);
    assert_int_equal(self.operand_count, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_name_tells_the_form_and_the_types, begin),
        cmocka_unit_test_setup(test_other_names_are_none, begin),
        cmocka_unit_test_setup(test_a_strided_copy_is_told, begin),
        cmocka_unit_test_setup(test_types_of_a_cast_are_among_the_arguments, begin),
        cmocka_unit_test_setup(test_numbers_that_do_not_fit_tell_nothing, begin),
        cmocka_unit_test_setup(test_memory_that_is_not_recorded_tells_nothing, begin),
        cmocka_unit_test_setup(test_garbage_is_survived, begin),
        cmocka_unit_test_setup(test_sizes_rule_a_kernel_out, begin),
        cmocka_unit_test_setup(test_addresses_in_a_buffer_are_told_once, begin),
        cmocka_unit_test_setup(test_no_more_than_eight, begin),
        cmocka_unit_test_setup(test_words_that_never_held_an_address_are_looked_at_now_and_then,
                               begin),
        cmocka_unit_test_setup(test_a_handle_that_comes_again_is_another_kernel, begin),
        cmocka_unit_test_setup(test_a_form_that_was_given_up_reads_nothing, begin),
        cmocka_unit_test_setup(test_what_was_found_unlike_stays_so, begin),
        cmocka_unit_test_setup(test_without_sizes_nothing_is_looked_at, begin),
        cmocka_unit_test_setup(test_extras_that_are_not_known_end_the_look, begin),
        cmocka_unit_test_setup(test_names_of_lists, begin),
        cmocka_unit_test_setup(test_tensors_in_lists_are_told, begin),
        cmocka_unit_test_setup(test_no_more_tensors_than_a_record_has_room_for, begin),
        cmocka_unit_test_setup(test_lists_that_do_not_fit_tell_nothing, begin),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
