/* Matrices of a warp, in place of the CUDA toolkit's file of this name. Each lane has the whole matrix, and stores a part:
 * a GPU divides it among the lanes in a way that programs may not rely on. */
#ifndef MMA_H_
#define MMA_H_

#include "cuda_bf16.h"
#include "cuda_fp16.h"

namespace nvcuda {
namespace wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };

template <typename Use, int M, int N, int K>
struct Shape;
template <int M, int N, int K>
struct Shape<matrix_a, M, N, K> { enum { rows = M, columns = K }; };
template <int M, int N, int K>
struct Shape<matrix_b, M, N, K> { enum { rows = K, columns = N }; };
template <int M, int N, int K>
struct Shape<accumulator, M, N, K> { enum { rows = M, columns = N }; };

template <typename Use, int M, int N, int K, typename T, typename Layout = void>
struct fragment : Shape<Use, M, N, K> {
  T x[Shape<Use, M, N, K>::rows * Shape<Use, M, N, K>::columns];
};

template <typename Fragment>
inline size_t place(int row, int column, unsigned stride, bool by_rows) {
  return by_rows ? (size_t)row * stride + (size_t)column : (size_t)column * stride + (size_t)row;
}

template <typename Fragment, typename T>
inline void load(Fragment &to, const T *from, unsigned stride, bool by_rows, unsigned line) {
  __syncwarp(0xffffffffu, line);
  for (int i = 0; i < Fragment::rows; ++i)
    for (int j = 0; j < Fragment::columns; ++j)
      to.x[i * Fragment::columns + j] = from[place<Fragment>(i, j, stride, by_rows)];
  __syncwarp(0xffffffffu, line);
}

template <typename Use, int M, int N, int K, typename T, typename Layout>
inline void load_matrix_sync(fragment<Use, M, N, K, T, Layout> &to, const T *from, unsigned stride,
                             unsigned line = __builtin_LINE()) {
  load(to, from, stride, std::is_same<Layout, row_major>::value, line);
}

template <int M, int N, int K, typename T>
inline void load_matrix_sync(fragment<accumulator, M, N, K, T> &to, const T *from, unsigned stride, layout_t layout,
                             unsigned line = __builtin_LINE()) {
  load(to, from, stride, layout == mem_row_major, line);
}

template <int M, int N, int K, typename T>
inline void store_matrix_sync(T *to, const fragment<accumulator, M, N, K, T> &from, unsigned stride, layout_t layout,
                              unsigned line = __builtin_LINE()) {
  typedef fragment<accumulator, M, N, K, T> Fragment;
  __syncwarp(0xffffffffu, line);
  for (int i = 0; i < M * N; ++i)
    if ((unsigned)i % 32 == emulated::lane())
      to[place<Fragment>(i / N, i % N, stride, layout == mem_row_major)] = from.x[i];
  __syncwarp(0xffffffffu, line);
}

template <typename Fragment, typename T>
inline void fill_fragment(Fragment &to, T value) {
  for (int i = 0; i < Fragment::rows * Fragment::columns; ++i) to.x[i] = value;
}

/* Products are added with the bits of the accumulator, or of 32-bit floats where that is half. */
template <typename T>
struct Sum { typedef T Type; };
template <>
struct Sum<__half> { typedef float Type; };

template <int M, int N, int K, typename A, typename B, typename C, typename LayoutA, typename LayoutB>
inline void mma_sync(fragment<accumulator, M, N, K, C> &to, const fragment<matrix_a, M, N, K, A, LayoutA> &a,
                     const fragment<matrix_b, M, N, K, B, LayoutB> &b, const fragment<accumulator, M, N, K, C> &added,
                     unsigned line = __builtin_LINE()) {
  typedef typename Sum<C>::Type Type;
  __syncwarp(0xffffffffu, line);
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) {
      Type sum = (Type)added.x[i * N + j];
      for (int k = 0; k < K; ++k) sum += (Type)a.x[i * K + k] * (Type)b.x[k * N + j];
      to.x[i * N + j] = (C)sum;
    }
}

}  // namespace wmma
}  // namespace nvcuda
#endif
