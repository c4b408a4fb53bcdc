/* In place of the CUDA toolkit's file of this name. */
#ifndef MATH_CONSTANTS_H_
#define MATH_CONSTANTS_H_
#define CUDART_INF_F __builtin_inff()
#define CUDART_NAN_F __builtin_nanf("")
#define CUDART_INF __builtin_inf()
#define CUDART_NAN __builtin_nan("")
#define CUDART_INF_FP16 __half(__builtin_inff())
#define CUDART_NAN_FP16 __half(__builtin_nanf(""))
#endif
