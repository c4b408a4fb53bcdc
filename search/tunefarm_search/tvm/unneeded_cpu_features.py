"""Features of LLVM that no device needs to have for code that is generated from TIR, by architecture.

Three kinds of each architecture:

- ``BASE``: parts of the architecture's base, versions and groups whose parts LLVM names as well, and properties of
  memory.
- ``INTRINSICS``: instructions that LLVM emits for intrinsics that no kernel contains, such as AES, and those of
  operating systems. Not every processor that LLVM gives these has them.
- ``TUNING``: choices among instructions that the processor has anyway.

For ARM, ``fp16`` (conversions of half floats) has no name in Linux. Of processors with NEON, only Cortex-A8 lacks it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_AARCH64_BASE: Final = """
    fp-armv8 neon v8.1a v8.2a v8.3a v8.4a v8.5a v8.6a v8.7a v8.8a v8a v8r v9.1a v9.2a v9.3a v9a
"""
_AARCH64_INTRINSICS: Final = """
    CONTEXTIDREL2 aes am amvs brbe bti ccdp ccidx ccpp chk clrbhb crc dit ecv el2vmsa el3 ete fgt fpac hcx lor ls64
    mec mpam mte nmi nv pan pan-rwv pauth perfmon predres rand ras rme sb sel2 sha2 sm4 spe spe-eef specres2
    specrestrict ssbs tlb-rmi tracev8.4 trbe uaops vh wfxt xs
"""
_AARCH64_TUNING: Final = """
    a320 a35 a510 a520 a520ae a53 a55 a57 a64fx a65 a710 a715 a72 a720 a720ae a73 a75 a76 a77 a78 a78ae a78c
    addr-lsl-slow-14 aggressive-fma aggressive-interleaving alternate-sextload-cvt-f32-pattern alu-lsl-fast ampere1
    ampere1a ampere1b ampere1c apple-a10 apple-a11 apple-a12 apple-a13 apple-a14 apple-a15 apple-a16 apple-a17
    apple-a7 apple-m4 apple-m5 arith-bcc-fusion arith-cbz-fusion avoid-ldapur balance-fp-ops c1-nano c1-premium
    c1-pro c1-ultra carmel cmp-bcc-fusion cortex-a725 cortex-r82 cortex-r82ae cortex-x1 cortex-x2 cortex-x3
    cortex-x4 cortex-x925 disable-latency-sched-heuristic disable-maximize-scalable-bandwidth
    disable-unpredicated-ld-st-lower enable-select-opt exynos-cheap-as-move exynosm3 exynosm4 falkor
    force-32bit-jump-tables fujitsu-monaka fuse-address fuse-addsub-2reg-const1 fuse-adrp-add fuse-aes
    fuse-arith-logic fuse-crypto-eor fuse-csel fuse-cset fuse-literals kryo ldp-aligned-only max-interleave-factor-4
    neoverse512tvb neoversee1 neoversen1 neoversen2 neoversen3 neoversev1 neoversev2 neoversev3 neoversev3AE
    no-sve-fp-ld1r no-zcz-fpr64 olympus oryon-1 predictable-select-expensive saphira slow-strqro-store
    store-pair-suppress stp-aligned-only strict-align thunderx thunderx2t99 thunderx3t110 thunderxt81 thunderxt83
    thunderxt88 tsv110 use-fixed-over-scalable-if-equal-cost use-postra-scheduler use-wzr-to-vec-move zcm-fpr128
    zcm-gpr64 zcz-fp-workaround zcz-fpr128 zcz-gpr32 zcz-gpr64
"""
_X86_64_BASE: Final = """
    64bit 64bit-mode cmov cx8 fxsr mmx nopl sse sse2 x87
"""
_X86_64_INTRINSICS: Final = """
    adx aes cldemote clflushopt clwb clzero crc32 enqcmd fsgsbase hreset invpcid kl lwp movdir64b movdiri movrs
    mwaitx pclmul pconfig pku prefetchi prfchw ptwrite rdpid rdpru rdrnd rdseed serialize sha sha512 shstk sm3 sm4
    tsxldtrk uintr usermsr vaes vpclmulqdq waitpkg wbnoinvd widekl xsave xsavec xsaveopt xsaves
"""
_X86_64_TUNING: Final = """
    allow-light-256-bit branch-hint branchfusion ermsb false-deps-getmant false-deps-lzcnt-tzcnt false-deps-mulc
    false-deps-mullq false-deps-perm false-deps-popcnt false-deps-range fast-11bytenop fast-15bytenop fast-7bytenop
    fast-bextr fast-dpwssd fast-gather fast-hops fast-imm16 fast-lzcnt fast-movbe fast-scalar-fsqrt
    fast-scalar-shift-masks fast-shld-rotate fast-variable-crosslane-shuffle fast-variable-perlane-shuffle
    fast-vector-fsqrt fast-vector-shift-masks faster-shift-than-shuffle fsrm idivl-to-divb idivq-to-divl lea-sp
    lea-uses-ag macrofusion no-bypass-delay no-bypass-delay-blend no-bypass-delay-mov no-bypass-delay-shuffle
    pad-short-functions prefer-128-bit prefer-256-bit prefer-mask-registers prefer-movmsk-over-vtest
    sbb-dep-breaking slow-3ops-lea slow-incdec slow-lea slow-pmaddwd slow-pmulld slow-pmullq slow-shld
    slow-two-mem-ops slow-unaligned-mem-16 slow-unaligned-mem-32 tuning-fast-imm-vector-shift use-glm-div-sqrt-costs
    use-slm-arith-costs vzeroupper
"""
_ARM_BASE: Final = """
    aclass armv4 armv4t armv5t armv5te armv6 armv6k armv6kz armv6t2 armv7-a armv8-a armv8.2-a armv8.4-a armv9-a db
    dsp fp-armv8 fp-armv8d16 fp-armv8sp fp16 fp64 fpregs fpregs16 fpregs64 mp thumb-mode thumb2 v4t v5t v5te v6 v6k
    v6m v6t2 v7 v7clrex v8.1a v8.2a v8.3a v8.4a v8.5a v8m v9a vfp2 vfp3 vfp3d16 vfp3sp vfp4 vfp4d16 vfp4sp
"""
_ARM_INTRINSICS: Final = """
    aes crc crypto dfb perfmon ras sb sha2 trustzone virtualization
"""
_ARM_TUNING: Final = """
    a12 a15 a17 a35 a5 a53 a55 a57 a7 a72 a73 a75 a76 a77 a78c a8 a9 avoid-movs-shop avoid-muls avoid-partial-cpsr
    branch-align-64 cheap-predicable-cpsr cortex-a710 cortex-a78 cortex-a78ae cortex-x1 cortex-x1c
    disable-postra-scheduler dont-widen-vmovs expand-fp-mlx exynos fix-cortex-a57-aes-1742098 fpao fuse-aes
    fuse-literals krait kryo loop-align muxed-units neon-fpmovs neonfp no-branch-predictor no-movt nonpipelined-vfp
    prefer-ishst prefer-vmovsr prof-unpr ret-addr-stack slow-fp-brcc slow-load-D-subreg slow-odd-reg slow-vdup32
    slow-vgetlni32 slowfpvfmx slowfpvmlx splat-vfp-neon strict-align swift use-mipipeliner use-misched vldn-align
    vmlx-forwarding vmlx-hazards wide-stride-vfp zcz
"""
_RISCV64_BASE: Final = """
    64bit a b c d f i m za64rs zama16b zic64b ziccamoa ziccif zicclsm ziccrse zk zkn zks zkt zvkn zvknc zvkng zvks
    zvksc zvksg zvkt
"""
_RISCV64_INTRINSICS: Final = """
    h sha shcounterenw shgatpa shtvala shvsatpa shvstvala shvstvecd smaia smcsrind smdbltrp smmpm smnpm smrnmi
    smstateen ssaia ssccptr sscofpmf sscounterenw sscsrind ssdbltrp ssnpm sspm ssstateen ssstrict sstc sstvala
    sstvecd ssu64xl supm svade svbare svinval svnapot svpbmt
"""
_RISCV64_TUNING: Final = """
    add-load-fusion andes45 auipc-addi-fusion auipc-load-fusion conditional-cmv-fusion
    disable-misched-load-clustering disable-postmisched-load-clustering disable-postmisched-store-clustering
    dlen-factor-2 log-vrgather lui-addi-fusion lui-load-fusion mips-p8700 no-default-unroll no-sink-splat-operands
    optimized-nf2-segment-load-store optimized-nf3-segment-load-store optimized-nf4-segment-load-store
    optimized-nf5-segment-load-store optimized-nf6-segment-load-store optimized-nf7-segment-load-store
    optimized-nf8-segment-load-store optimized-zero-stride-load shifted-zextw-fusion short-forward-branch-ialu
    sifive7 single-element-vec-fp64 unaligned-scalar-mem unaligned-vector-mem use-postra-scheduler ventana-veyron
    vl-dependent-latency vxrm-pipeline-flush zexth-fusion zextw-fusion
"""

UNNEEDED_FEATURES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "x86_64": frozenset(f"{_X86_64_BASE}{_X86_64_INTRINSICS}{_X86_64_TUNING}".split()),
        "aarch64": frozenset(f"{_AARCH64_BASE}{_AARCH64_INTRINSICS}{_AARCH64_TUNING}".split()),
        "arm": frozenset(f"{_ARM_BASE}{_ARM_INTRINSICS}{_ARM_TUNING}".split()),
        "riscv64": frozenset(f"{_RISCV64_BASE}{_RISCV64_INTRINSICS}{_RISCV64_TUNING}".split()),
    }
)
