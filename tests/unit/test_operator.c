/*
 * test_operator.c - operators, and the steps of backward passes, told from C++ frames.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "operator.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* The names that PyTorch 2.11 has them by in its schemas. */
static void test_overloads(void **state) {
    (void)state;
    static const char *const names[][2] = {
        {"add_Tensor", "add.Tensor"},
        {"add__Tensor", "add_.Tensor"},
        {"add_Scalar_out", "add.Scalar_out"},
        {"contiguous", "contiguous"},
        {"copy_", "copy_"},
        {"_to_copy", "_to_copy"},
        {"_to_copy_out", "_to_copy.out"},
        {"to_dtype_layout", "to.dtype_layout"},
        {"empty_memory_format", "empty.memory_format"},
        {"empty_strided", "empty_strided"},
        {"max_dim", "max.dim"},
        {"max_dim_max", "max.dim_max"},
        {"max_pool2d_with_indices", "max_pool2d_with_indices"},
        {"max_pool2d_with_indices_out", "max_pool2d_with_indices.out"},
        {"sum_dim_IntList", "sum.dim_IntList"},
        {"mean_names_dim", "mean.names_dim"},
        {"_convolution_deprecated", "_convolution.deprecated"},
        {"conv2d_padding", "conv2d.padding"},
        {"convolution_backward", "convolution_backward"},
        {"nll_loss_backward_grad_input", "nll_loss_backward.grad_input"},
        {"_softmax_backward_data", "_softmax_backward_data"},
        {"sparse_dim", "sparse_dim"},
        {"split_Tensor", "split.Tensor"},
        {"split_with_sizes", "split_with_sizes"},
        {"index_fill_int_Scalar", "index_fill.int_Scalar"},
        {"upsample_nearest2d_vec", "upsample_nearest2d.vec"},
        {"__and___Tensor", "__and__.Tensor"},
        {"__ilshift___Scalar", "__ilshift__.Scalar"},
        {"_foreach_add__List", "_foreach_add_.List"},
        {"_local_scalar_dense", "_local_scalar_dense"},
        {"matrix_H", "matrix_H"},
        {"mT", "mT"},
    };
    for (int i = 0; i < COUNT(names); i++) {
        char function[200], want[100], name[LS_OPERATOR_MAX];
        snprintf(function, sizeof function, "at::_ops::%s::call(at::Tensor const&)", names[i][0]);
        snprintf(want, sizeof want, "aten::%s", names[i][1]);
        assert_true(ls_operator_name(function, name, sizeof name));
        assert_string_equal(name, want);
    }
}

static void test_functions(void **state) {
    (void)state;
    static const char *const functions[][2] = {
        {"at::_ops::mm::redispatch(c10::DispatchKeySet, at::Tensor const&)", "aten::mm"},
        {"torch::autograd::VariableType::(anonymous namespace)::mul_Tensor(c10::DispatchKeySet)",
         "aten::mul.Tensor"},
        {"torch::ADInplaceOrView::(anonymous namespace)::copy_(c10::DispatchKeySet)",
         "aten::copy_"},
    };
    static const char *const none[] = {
        "at::_ops::mm::",
        "at::_ops::",
        "at::_ops::mm::create_mm_typed_handle()",
        "at::native::mm(at::Tensor const&)",
        "c10::Dispatcher::callBoxed(c10::OperatorHandle const&, std::vector<c10::IValue>*) const",
        "at::(anonymous namespace)::(anonymous namespace)::wrapper_CUDA_add_Tensor(at::Tensor "
        "const&)",
        "",
    };
    char name[LS_OPERATOR_MAX];
    for (int i = 0; i < COUNT(functions); i++) {
        assert_true(ls_operator_name(functions[i][0], name, sizeof name));
        assert_string_equal(name, functions[i][1]);
    }
    for (int i = 0; i < COUNT(none); i++)
        assert_false(ls_operator_name(none[i], name, sizeof name));
}

#define NATIVE(name)                                                                               \
    { .module = "/v/site-packages/torch/lib/libtorch_cpu.so", .function = name }

static void test_outer_and_inner(void **state) {
    (void)state;
    struct ls_operators operators;
    const struct ls_site_frame frames[] = {
        NATIVE("cublasSgemm_v2"),
        NATIVE("at::native::copy_kernel_cuda(at::TensorIterator&, bool)"),
        NATIVE("at::_ops::copy_::redispatch(c10::DispatchKeySet)"),
        NATIVE(NULL),
        NATIVE("at::_ops::clone::call(at::Tensor const&)"),
        NATIVE("at::_ops::contiguous::call(at::Tensor const&, c10::MemoryFormat)"),
        {.python = true, .file = "a.py", .function = "at::_ops::mm::call("},
    };
    assert_true(ls_operators_of(frames, COUNT(frames), &operators));
    assert_string_equal(operators.outer, "aten::contiguous");
    assert_string_equal(operators.inner, "aten::copy_");
    assert_true(ls_operators_of(frames, 2, &operators));
    assert_string_equal(operators.outer, "cublasSgemm_v2");
    assert_string_equal(operators.inner, "cublasSgemm_v2");
    assert_false(ls_operators_of(frames + 1, 1, &operators));
}

static void test_backward(void **state) {
    (void)state;
    static const char *const nodes[][2] = {
        {"torch::autograd::generated::ConvolutionBackward0::apply(std::vector<at::Tensor>&&)",
         "backward of convolution"},
        {"torch::autograd::generated::MaxPool2DWithIndicesBackward0::apply(int)",
         "backward of max_pool2d_with_indices"},
        {"torch::autograd::generated::ConvolutionBackwardBackward0::apply(int)",
         "backward of convolution_backward"},
        {"torch::autograd::generated::MmBackward1_apply_functional(int)", "backward of mm"},
        {"torch::autograd::AccumulateGrad::apply(int)", "backward: accumulate gradient"},
        {"torch::autograd::InputBuffer::add(unsigned long)", "backward: sum of gradients"},
        {"torch::autograd::CppNode<mine::Scale>::apply(int)", "backward of mine::Scale"},
        {"torch::autograd::PyNode::apply(int)", "backward of a Python function"},
        {"torch::autograd::Engine::thread_main(int)", "backward"},
    };
    char text[200];
    for (int i = 0; i < COUNT(nodes); i++) {
        const struct ls_site_frame frames[] = {
            NATIVE("c10::cuda::alloc()"),
            NATIVE(nodes[i][0]),
            NATIVE("torch::autograd::Engine::evaluate_function(int)"),
            NATIVE("torch::autograd::Engine::thread_init(int)"),
        };
        assert_true(ls_backward_text(frames, COUNT(frames), text, sizeof text));
        assert_string_equal(text, nodes[i][1]);
    }
    const struct ls_site_frame python[] = {
        NATIVE("torch::autograd::PyNode::apply(int)"),
        {.python = true, .file = "a.py", .function = "backward"},
    };
    assert_false(ls_backward_text(python, 2, text, sizeof text));
    const struct ls_site_frame node[] = {
        python[1],
        {.python = true, .file = "/v/torch/autograd/function.py", .function = "apply"},
        {.python = true, .forward = true, .file = "a.py", .function = "f"},
    };
    assert_true(ls_backward_text(node, 3, text, sizeof text));
    assert_string_equal(text, "backward of a Python function");
    assert_false(ls_backward_text(node, 1, text, sizeof text));
    struct ls_site_frame forward[] = {python[0], python[1]};
    forward[1].forward = true;
    assert_true(ls_backward_text(forward, 2, text, sizeof text));
    const struct ls_site_frame other[] = {NATIVE("torch::autograd::generated::details::f(int)"),
                                          NATIVE("torch::autograd::THPVariable_to(int)")};
    assert_false(ls_backward_text(other, 2, text, sizeof text));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overloads),
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_outer_and_inner),
        cmocka_unit_test(test_backward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
