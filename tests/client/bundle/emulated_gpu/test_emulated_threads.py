"""The emulated GPU runs threads of a block up to their barriers, and reports what a GPU would not do."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tests.client.bundle.emulated_gpu.emulator import Array, EmulationError, Emulator
from tunefarm_workers.builder.cuda_source import CudaFunction, CudaSource, KernelLaunch

MATMUL = """
extern "C" __global__ void __launch_bounds__(256) f_kernel(float* __restrict__ a, float* __restrict__ b, float* c) {
  __shared__ float tile_a[256];
  __shared__ float tile_b[256];
  int row = threadIdx.y, column = threadIdx.x, tile = (int)blockIdx.x * 16;
  float sum = 0.0f;
  for (int k = 0; k < 32; k += 16) {
    tile_a[row * 16 + column] = a[row * 32 + k + column];
    tile_b[row * 16 + column] = b[(k + row) * 32 + tile + column];
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum += tile_a[row * 16 + i] * tile_b[i * 16 + column];
    LAST_BARRIER
  }
  c[row * 32 + tile + column] = sum;
}
"""
REDUCTION = """
extern "C" __global__ void f_kernel(float* a, float* b) {
  float sum = a[threadIdx.x];
  unsigned mask = __activemask();
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(mask, sum, distance, 32);
  if (threadIdx.x % 32 == 0) b[threadIdx.x / 32] = sum;
}
"""
MATRICES = """
using namespace nvcuda;
extern "C" __global__ void f_kernel(half* a, half* b, float* c) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> right;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.0f);
  wmma::load_matrix_sync(left, a, 16);
  wmma::load_matrix_sync(right, b, 16);
  wmma::mma_sync(sum, left, right, sum);
  wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}
"""
COPIES = """
__forceinline__ __device__ void copy(void* dst, int dst_off, void* src, int src_off) {
  uint8_t* dst_p = (uint8_t*)dst + dst_off * 4;
  uint8_t* src_p = (uint8_t*)src + src_off * 4;
  unsigned int dst_addr = __cvta_generic_to_shared(dst_p);
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
    :: "r"(dst_addr), "l"(src_p), "n"(4));
}
__forceinline__ __device__ void copy_if(void* dst, int dst_off, void* src, int src_off, int predicate) {
  uint8_t* dst_p = (uint8_t*)dst + dst_off * 4;
  uint8_t* src_p = (uint8_t*)src + src_off * 4;
  unsigned int dst_addr = __cvta_generic_to_shared(dst_p);
  __asm__ __volatile__(
    "{\\n"
    " .reg .pred p;\\n"
    " setp.eq.u32 p, %3, 1;\\n"
    " @p cp.async.ca.shared.global [%0], [%1], %2;\\n"
    " @!p st.shared.u32 [%0], {%4};\\n"
    "}\\n"
    :: "r"(dst_addr), "l"(src_p), "n"(4), "r"(predicate), "r"(0)
  );
}
__forceinline__ __device__ void commit() {
  asm volatile("cp.async.commit_group;" :  : );
}
__forceinline__ __device__ void wait() {
  asm volatile("cp.async.wait_group 1;" :  :  : "memory");
}
extern "C" __global__ void f_kernel(float* a, float* b) {
  __shared__ float s[4];
  copy(s, 0, a, 5);
  copy_if(s, 1, a, 6, 1);
  copy_if(s, 2, a, 7, 0);
  commit();
  copy(s, 3, a, 8);
  commit();
  wait();
  for (int i = 0; i < 4; ++i) b[i] = s[i];
}
"""
"""As TVM writes them."""
INPUT = np.arange(64, dtype="float32")


SHUFFLES: dict[str, Callable[[int], int]] = {
    "__shfl_sync(-1, a[t], 5, 8)": lambda lane: lane // 8 * 8 + 5,
    "__shfl_up_sync(-1, a[t], 3, 16)": lambda lane: lane if lane % 16 < 3 else lane - 3,
    "__shfl_down_sync(-1, a[t], 3, 16)": lambda lane: lane if lane % 16 > 12 else lane + 3,
    "__shfl_xor_sync(-1, a[t], 9)": lambda lane: lane ^ 9,
}
FAILING = {
    "if (threadIdx.x < 8)\n__syncthreads();": "thread 0 waits at a barrier in line 3, and thread 8 has ended",
    "if (threadIdx.x < 8) __syncthreads();\nelse __syncthreads();": "in line 2, and thread 8 waits at a barrier",
    "if (threadIdx.x < 9)\n__shfl_sync(-1, 1, 0);\n__syncthreads();": "in a warp operation in line 3, and thread 9",
    "if (threadIdx.x == 9) __shfl_sync(0xff, 1, 0);": "thread 9 is not in the lanes 0xff that it names",
    "__shared__ float s[8]; s[threadIdx.x] = 1;": "thread 8 used the index 8 of an array",
    "float s[8]; s[threadIdx.x - 1] = 1; b[0] = s[2];": "thread 0 used the index 4294967295 of an array",
    "*(float2*)(b + 1) = *(float2*)a;": "thread 0 accessed the address .*, which is not aligned",
    "b[(size_t)threadIdx.x << 40] = 1;": "thread 1 accessed the address",
    "b[0] = (int)a[9] / (int)threadIdx.x;": "thread 0 divided an integer by zero",
    "b[4] = 1;": "thread 0 accessed the address",
    "b[4] = a[64];": "thread 0 accessed the address",
    "b[-1] = 1;": "a kernel wrote outside of the 16 bytes of allocation 1",
    "float s[200000]; for (int i = 0; i < 200000; ++i) s[i] = a[i % 64]; b[0] = s[(int)a[9]];": "accessed the address",
}


def kernel(statements: str, name: str = "f_kernel") -> str:
    return f'#line 1\nextern "C" __global__ void {name}(float* a, float* b) {{\n{statements}\n}}\n'


def launched(
    source: str,
    block: tuple[int, int, int] = (64, 1, 1),
    grid: tuple[int, int, int] = (1, 1, 1),
    dynamic_shared_bytes: int = 0,
    tensors: int = 2,
    name: str = "f_kernel",
) -> CudaSource:
    arguments = tuple(range(tensors))
    launch = KernelLaunch(
        kernel=name, grid=grid, block=block, dynamic_shared_bytes=dynamic_shared_bytes, arguments=arguments
    )
    function = CudaFunction(name="f", tensors=tensors, workspaces_bytes=(), launches=(launch,))
    return CudaSource(source=source, functions=(function,))


def output(emulator: Emulator, source: CudaSource, inputs: Sequence[Array] = (INPUT,), size: int = 4) -> Array:
    [found] = emulator.run(source, inputs, [np.empty(size, "float32")])
    return found


def product(emulator: Emulator, last_barrier: str) -> tuple[Array, Array]:
    """A product of matrices, and what it ought to be."""
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype("float32") for shape in ((16, 32), (32, 32)))
    source = launched(MATMUL.replace("LAST_BARRIER", last_barrier), (16, 16, 1), (2, 1, 1), tensors=3)
    return output(emulator, source, (a, b), 16 * 32).reshape(16, 32), a @ b


def test_threads_share_memory_between_barriers(emulator: Emulator) -> None:
    found, expected = product(emulator, "__syncthreads();")
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_missing_barrier_makes_the_result_wrong(emulator: Emulator) -> None:
    found, expected = product(emulator, "")
    assert not np.allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_lanes_of_a_warp_exchange_values(emulator: Emulator) -> None:
    found = output(emulator, launched(REDUCTION), size=2)
    np.testing.assert_array_equal(found, INPUT.reshape(2, 32).sum(axis=1))


@pytest.mark.parametrize("number", range(len(SHUFFLES)), ids=list(SHUFFLES))
def test_shuffles_read_the_lanes_of_cuda(emulator: Emulator, number: int) -> None:
    kernels = (kernel(f"int t = threadIdx.x; b[t] = {each};", f"k{i}") for i, each in enumerate(SHUFFLES))
    found = output(emulator, launched("".join(kernels), (32, 1, 1), name=f"k{number}"), size=32)
    source_of = list(SHUFFLES.values())[number]
    np.testing.assert_array_equal(found, [source_of(lane) for lane in range(32)])


def test_matrices_of_a_warp_are_multiplied(emulator: Emulator) -> None:
    source = f"#include <mma.h>\n{MATRICES}"
    a, b = (np.random.default_rng(each).standard_normal((16, 16)).astype("float16") for each in (0, 1))
    found = output(emulator, launched(source, (32, 1, 1), tensors=3), (a, b), 256).reshape(16, 16)
    np.testing.assert_allclose(found, a.astype("float32") @ b.astype("float32").T, rtol=1e-4, atol=1e-4)


def test_asynchronous_copies_arrive_when_they_are_waited_for(emulator: Emulator) -> None:
    np.testing.assert_array_equal(output(emulator, launched(COPIES, (1, 1, 1))), [5, 6, 0, np.nan])


def test_active_lanes_are_those_that_take_the_branch(emulator: Emulator) -> None:
    source = launched(kernel("b[threadIdx.x] = -1; if (threadIdx.x < 3) b[threadIdx.x] = __activemask();"), (4, 1, 1))
    np.testing.assert_array_equal(output(emulator, source), [7, 7, 7, -1])


def test_dynamic_shared_memory_has_the_size_of_the_launch(emulator: Emulator) -> None:
    statements = "extern __shared__ float s[]; int t = threadIdx.x; s[t] = a[t]; __syncthreads(); b[t] = s[3 - t];"
    found = output(emulator, launched(kernel(statements), (4, 1, 1), dynamic_shared_bytes=16))
    np.testing.assert_array_equal(found, [3, 2, 1, 0])
    with pytest.raises(EmulationError, match="wrote outside of the 12 bytes of dynamic shared memory"):
        output(emulator, launched(kernel(statements), (4, 1, 1), dynamic_shared_bytes=12))


@pytest.mark.parametrize(
    "statements",
    [
        "if (threadIdx.x == 0) b[0] = 1;",
        "int t = threadIdx.x; __shared__ float s[4]; if (t == 0) s[0] = 1; __syncthreads(); b[t] = s[t];",
        "int t = threadIdx.x; extern __shared__ float s[]; if (t == 0) s[0] = 1; __syncthreads(); b[t] = s[t];",
    ],
    ids=["tensor", "shared", "dynamic"],
)
def test_memory_that_nothing_wrote_is_not_a_number(emulator: Emulator, statements: str) -> None:
    found = output(emulator, launched(kernel(statements), (4, 1, 1), dynamic_shared_bytes=16))
    np.testing.assert_array_equal(found, [1, np.nan, np.nan, np.nan])


@pytest.mark.parametrize("number", range(len(FAILING)), ids=list(FAILING))
def test_kernel_that_a_gpu_would_not_run_is_an_error(emulator: Emulator, number: int) -> None:
    kernels = "".join(kernel(statements, f"k{i}") for i, statements in enumerate(FAILING))
    with pytest.raises(EmulationError, match=list(FAILING.values())[number]):
        output(emulator, launched(kernels, name=f"k{number}"))


@pytest.mark.parametrize(
    ("launch", "problem"),
    [
        ({"block": (32, 33, 1)}, "1056 threads; a block has at most 1024"),
        ({"block": (1, 1, 65)}, "65 threads along an axis; 1 to 64 are allowed"),
        ({"grid": (1, 65536, 1)}, "65536 blocks along an axis; 1 to 65535 are allowed"),
        ({"block": (257, 1, 1), "name": "bounded"}, "257 threads; the kernel is compiled for at most 256"),
        ({"dynamic_shared_bytes": 101377}, "cuFuncSetAttribute"),
    ],
)
def test_launch_beyond_the_limits_is_an_error(emulator: Emulator, launch: dict[str, object], problem: str) -> None:
    source = kernel("b[0] = a[0];") + kernel("b[0] = a[0];", "__launch_bounds__(256) bounded")
    with pytest.raises(EmulationError, match=problem):
        output(emulator, launched(source, **launch))


def test_sources_may_have_functions_of_the_same_name(emulator: Emulator) -> None:
    for factor in (2, 3):
        helper = f"__device__ float scaled(float x) {{ return x * {factor}; }}\n"
        found = output(emulator, launched(helper + kernel("b[threadIdx.x] = scaled(a[threadIdx.x]);"), (4, 1, 1)))
        np.testing.assert_array_equal(found, INPUT[:4] * factor)


def test_instruction_of_a_gpu_is_an_error(emulator: Emulator) -> None:
    source = kernel('asm volatile("mov.u32 %0, %%laneid;" : "=r"(*(unsigned*)b));')
    with pytest.raises(EmulationError, match="g\\+\\+: "):
        output(emulator, launched(source))
