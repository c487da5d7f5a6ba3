/*
 * test_kernel_words.c - which kernels only move or convert data, by names as real programs have
 * them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/kernel_words.h"

static const char *const moving[] = {
    "_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastIZZZNS0_23direct_copy_"
    "kernel_cudaERNS_18TensorIteratorBaseEENKUlvE1_clEvENKUlvE5_clEvEUlfE_EEvS4_RKT_EUliE_EEviT1_",
    "_ZN2at6native29vectorized_elementwise_kernelILi4EZNS0_24float16_copy_kernel_cudaERNS_"
    "18TensorIteratorBaseEEUlfE_St5arrayIPcLm2EEEEviT0_T1_",
    "_ZN2at6native29vectorized_elementwise_kernelILi4EZNS0_25bfloat16_copy_kernel_cudaERNS_"
    "18TensorIteratorBaseEEUlfE_St5arrayIPcLm2EEEEviT0_T1_",
    "_ZN2at6native40_GLOBAL__N__a8a8_8_Shape_cu_49f7391c19CatArrayBatchedCopyINS1_"
    "10OpaqueTypeILj4EEEjLi3ELi64ELi64EEEvPT_",
    "_ZN2at6native13im2col_kernelIfEEvlPKT_llllllllllllPS2_",
    "_ZN2at6native13vol2col_kernelIfEEvlPKT_iiiiiiiiiiiiiiiiiiPS2_",
    "_ZN5cudnn3ops17nchwToNhwcKernelIfffLb0ELb1EL19cudnnKernelDataType_t2EEEvNS0_"
    "15nchw2nhwc_paramsIT1_EEPKT_PT0_",
    "_ZN5cudnn20engines_precompiled17nhwcToNchwKernelI6__halfS2_fLb1ELb0EL19cudnnKernelDataType_"
    "t0EEEvNS0_15nhwc2nchw_paramsIT1_EEPKT_PT0_",
    "_ZN5cudnn3ops21nchwToNhwc3To4KernelI6__halfEEvPKT_PS3_",
    "_ZN5cudnn3ops24genericTranspose_kernelIffEEvi",
    "_ZN5cudnn3ops22tensorTransformGenericIfffLb1ELb0ELb0EL19cudnnKernelDataType_t2EEEvv",
    "_ZN5cudnn3cnn25firstLayerToFoldedNhwcKernelI6__halfEEvv",
    "_ZN5cudnn3ops20nhwcAddPaddingKernelI6__halfS2_fLb1EL19cudnnKernelDataType_t0EEEvv",
    "_ZN5cudnn3ops20convertTensor_kernelIfffL19cudnnKernelDataType_t2EEEvfPKT_fPT0_m",
    "_ZN15genericReformat16copyPackedKernelI6__halffLb1ELb1ENS_21IdentityCoordMapperELi4EEEvv",
    "triton_poi_fused_clone_0",
    "triton_poi_fused__to_copy_add_12",
    "triton_per_fused__to_copy_native_layer_norm_3",
};

static const char *const computing[] = {
    "",
    "_Z3addPfS_i",
    "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16_stage4_"
    "warpsize2x2x1_g1_tensor16x8x8_kernel_cudnn",
    "_ZN13cutlass__5x_cudnn6KernelI53cutlass_tensorop_s16816fprop_optimized_f16_128x128_32x4_nhwc_"
    "align8EEvNT_6ParamsE",
    "_ZN5cudnn9bn_fw_tr_1C11_kernel_NCHWIffLi512ELb1ELi1EEEv17cudnnTensorStruct",
    "_ZN5cudnn7ops4nhwc23batchnorm_fwtr_nhwc_kernelI6__halfEEvv",
    "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_impl_nocastINS0_15CUDAFunctor_"
    "addIfEEEEvRNS_18TensorIteratorBaseERKT_EUliE_EEviT1_",
    "_ZN2at6native13col2im_kernelIffEEvlPKT_llllllllllllPS2_",
    "ampere_sgemm_128x64_tn",
    "cutlass_80_tensorop_f16_s16816gemm_relu_f16_128x64_64x4_tn_align8",
    "triton_poi_fused_add_relu_2",
    "triton_red_fused_clonelike_1",
    "_ZN2at6native12_GLOBAL__N_116triton_wrapper_clone_0Ev",
};

static void test_moving(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof moving / sizeof *moving; i++)
        if (!ls_kernel_moves(moving[i]))
            fail_msg("moves data: %s", moving[i]);
}

static void test_computing(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof computing / sizeof *computing; i++)
        if (ls_kernel_moves(computing[i]))
            fail_msg("computes: %s", computing[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_moving),
                                       cmocka_unit_test(test_computing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
