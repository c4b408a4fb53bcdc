"""The permitted contents of a function from outside.

These are allow-lists: an operator, a node or an annotation that a new version of TVM adds is refused until it is listed
here.
"""

import re
from typing import Final

ARITHMETIC: Final = frozenset(
    {f"prim.{name}" for name in ("ceil", "clz", "if_then_else", "likely", "log2", "vscale")}
    | {
        f"tirx.{name}"
        for name in (
            *("acos", "acosh", "asin", "asinh", "assume", "atan", "atan2", "atanh", "copysign", "cos", "cosh", "ctpop"),
            *("dp4a", "erf", "exp", "exp10", "exp2", "fabs", "floor", "fma", "fmod", "hypot", "isfinite", "isinf"),
            *("isnan", "ldexp", "log", "log10", "log1p", "nearbyint", "nextafter", "popcount", "pow"),
            *("q_multiply_shift", "q_multiply_shift_per_axis", "reinterpret", "round", "rsqrt", "selector", "sigmoid"),
            *("sin", "sinh", "sqrt", "tan", "tanh", "trunc", "undef", "vectorcombine", "vectorhigh", "vectorlow"),
        )
    }
)
"""Operators that return a value and have no side effect."""

SCHEDULING: Final = frozenset(
    {
        f"tirx.{name}"
        for name in (
            *("buffer_data", "buffer_offset", "get_active_lane_mask", "ignore_loop_partition", "masked_load"),
            *("masked_store", "mma_fill", "mma_fill_legacy", "mma_store", "mma_store_legacy", "s_tir.cp_async_raw"),
            *("s_tir.ldg32", "tvm_access_ptr", "tvm_bmma_sync", "tvm_fill_fragment", "tvm_load_matrix_sync"),
            *("tvm_mma_sync", "tvm_storage_sync", "tvm_store_matrix_sync", "tvm_thread_allreduce"),
            *("tvm_thread_invariant", "tvm_tuple", "tvm_warp_activemask", "tvm_warp_shuffle", "tvm_warp_shuffle_down"),
            *("tvm_warp_shuffle_up", "tvm_warp_shuffle_xor", "type_annotation", "ptx.ldmatrix", "ptx.mma"),
            *("ptx.cp_async_ca", "ptx.cp_async_cg", "ptx.cp_async_commit_group", "ptx.cp_async_wait_group"),
            *("ptx.cp_async_wait_all", "ptx_legacy.ldmatrix", "ptx_legacy.mma"),
            *("make_filled_simdgroup_matrix", "simdgroup_load", "simdgroup_multiply_accumulate", "simdgroup_store"),
        )
    }
)
"""Operators that TVM's own schedules and tensor intrinsics add to a function."""

ADDRESS: Final = "tirx.address_of"
"""The operator by which instructions of a matrix unit get what they access."""
LLVM_CALLS: Final = frozenset({"tirx.call_llvm_intrin", "tirx.call_llvm_pure_intrin"})
LLVM_INTRINSICS: Final = (
    *("llvm.abs", "llvm.ceil", "llvm.copysign", "llvm.ctpop", "llvm.exp", "llvm.exp2", "llvm.fabs", "llvm.floor"),
    *("llvm.fma", "llvm.fmuladd", "llvm.log", "llvm.log10", "llvm.log2", "llvm.maximum", "llvm.maxnum"),
    *("llvm.minimum", "llvm.minnum", "llvm.nearbyint", "llvm.pow", "llvm.rint", "llvm.round", "llvm.sqrt"),
    *("llvm.trunc", "llvm.x86.avx512.pmaddubs.w.512", "llvm.x86.avx512.pmaddw.d.512"),
    *("llvm.x86.avx512.vpdpbusd.256", "llvm.x86.avx512.vpdpbusd.512", "llvm.aarch64.neon.addp"),
    *("llvm.aarch64.neon.saddlp", "llvm.aarch64.neon.smull"),
    *("llvm.aarch64.neon.sdot", "llvm.aarch64.neon.udot", "llvm.riscv.vfmul", "llvm.riscv.vwmul"),
    *("llvm.amdgcn.mfma", "llvm.amdgcn.sdot4"),
)
"""Intrinsics of LLVM that compute on registers; each stands for its variants for several types."""

NAMED_CALLS: Final = frozenset(
    {"tirx.call_extern", "tirx.call_pure_extern", "tirx.tvm_call_packed", "tirx.tvm_call_cpacked"}
)
"""Calls of a function by the name in their first argument. The name must be allowed."""

DEVICE_FUNCTIONS: Final = frozenset({"__dp4a"})
"""Functions of GPU compilers that TVM's own intrinsics call, and that compute on registers."""

NODES: Final = frozenset(
    {"None", "bool", "int", "float", "str", "ffi.Array", "ffi.Map", "ffi.String", "ffi.Shape"}
    | {
        f"ir.{name}"
        for name in (
            *("Call", "DictAttrs", "FloatImm", "FuncType", "GlobalVar", "IRModule", "IntImm", "Op", "PointerType"),
            *("PrimType", "Range", "SequentialSpan", "Source", "SourceMap", "SourceName", "Span", "StringImm"),
            *("StringType", "TensorLoad", "TensorRegion", "TupleType", "Type", "Var"),
        )
    }
    | {
        f"prim.{name}"
        for name in (
            *("Add", "And", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Broadcast", "Cast", "Div", "EQ"),
            *("FloorDiv", "FloorMod", "GE", "GT", "LE", "LShift", "LT", "Let", "Max", "Min", "Mod", "Mul", "NE"),
            *("Not", "Or", "RShift", "Ramp", "Select", "Shuffle", "Sub"),
        )
    }
    | {
        f"tirx.{name}"
        for name in (
            *("AllocBuffer", "AssertStmt", "AttrStmt", "Axis", "Bind", "Break", "BufferRegionType", "BufferStore"),
            *("BufferType", "Continue", "DeclBuffer", "Evaluate", "For", "IfThenElse", "IterVar", "PrimFunc"),
            *("Iter", "SeqStmt", "TileLayout", "While"),
        )
    }
    | {"s_tir.MatchBufferRegion", "s_tir.SBlock", "s_tir.SBlockRealize"}
    | {"relax.AnyType", "relax.FuncType", "relax.ShapeType", "relax.TensorType", "relax.expr.ShapeExpr"}
)
"""Nodes of a module with one TIR function. Those of Relax describe the type of the function's name."""

FUNCTION_ATTRIBUTES: Final = frozenset(
    {"global_symbol", "layout_free_buffers", "op_pattern", "s_tir", "tirx.is_scheduled", "tirx.noalias"}
)

TRANSFORM: Final = "tunefarm.transform"
"""Annotation of a block with the elements of tiles of Winograd's algorithm; its value is the rows of a tile."""

ATTENTION: Final = "tunefarm.attention"
"""Annotation of the two products of attention that is one function: ``scores`` and ``sums``."""

LANE_SUMS: Final = "tunefarm.lane_sums"
"""Annotation of a block with sums that are kept apart, one for each lane of a vector, and added by the next block."""

ANNOTATIONS: Final = frozenset(
    {
        *("async_commit_queue_scope", "async_scope", "async_wait_inflight_count", "async_wait_queue_scope"),
        *("auto_copy", "axis", "buffer_bound", "buffer_dim_align", "double_buffer_scope"),
        *("double_buffer_write", "dst_layout", "input_shape", "src_layout"),
        *("explicit_read_region", "explicit_write_region", "fragment_layout", "fragment_shape", "hand_threaded"),
        *("irregular_loop_mark", "layout_free_buffers", "layout_free_placeholders", "local_stage"),
        *("pragma_auto_unroll_max_step", "pragma_loop_partition_hint", "pragma_parallel_barrier_when_finish"),
        *("pragma_parallel_launch_point", "pragma_parallel_stride_pattern", "pragma_unroll"),
        *("pragma_unroll_explicit", "reduce_scope", "require_bound_predicate", "schedule_rule"),
        *("software_pipeline_async_stages", "software_pipeline_order", "software_pipeline_stage"),
        *(ATTENTION, LANE_SUMS, TRANSFORM),
        *("storage_alignment", "thread_extent", "tirx.manifest_shared_memory_local_stage"),
        *("tirx.script_parsing_detect_access", "vector_bytes", "virtual_thread", "warp_execution"),
    }
    | {
        f"meta_schedule.{name}"
        for name in (
            *("auto_tensorize", "auto_tensorize_init", "cooperative_fetch", "inline_rule", "layout_rewrite_preproc"),
            *("parallel", "random_compute_producer", "thread_extent_high_inclusive", "thread_extent_low_inclusive"),
            *("tiling_structure", "unroll_explicit", "unroll_implicit", "vectorize", "write_cache_level"),
        )
    }
)
"""Keys of blocks, loops and attribute statements: the two above, and what TVM's schedules and postprocessors write."""

ANNOTATION_VALUES: Final = frozenset(
    {"None", "bool", "int", "float", "str", "ffi.Array", "ffi.Map", "ffi.String", "ir.FloatImm", "ir.IntImm"}
    | {"ir.PrimType", "ir.StringImm", "ir.StringType", "ir.Type"}
)
"""Nodes of the value of an annotation or attribute."""

NAME: Final = re.compile(r"[\w.:;,/$@|~-]{0,500}")
"""A name of a variable, buffer or block, without characters that code generators would copy into source text."""
WORD: Final = re.compile(r"[\w.:/-]{0,100}")
"""A string that is an argument or an annotation. Some operators paste theirs into assembly text."""

LOADABLE_FAMILIES: Final = ("ffi.", "ir.", "prim.", "tirx.", "s_tir.", "relax.", "arith.", "te.", "script.")
NEVER_LOADED: Final = frozenset(
    {"ffi.Module", "ffi.Function", "ffi.OpaquePyObject", "ffi.Bytes", "ir.ExternFunc", "relax.expr.ExternFunc"}
)
PLAIN_NODES: Final = frozenset({"None", "bool", "int", "float", "str", "DataType", "dtype", "Device"})
"""Nodes of a text that TVM may load. Relax is loaded, so that the refusal can explain how to lower it."""
