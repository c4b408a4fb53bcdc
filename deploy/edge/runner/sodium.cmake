# The part of libsodium that the runner needs, from its sources: SODIUM_SOURCE is the folder src/libsodium of its source tree.
set(sodium ${SODIUM_SOURCE}/src/libsodium)
add_library(sodium_part STATIC
  ${sodium}/crypto_sign/ed25519/ref10/open.c ${sodium}/crypto_sign/ed25519/ref10/sign.c
  ${sodium}/crypto_core/ed25519/ref10/ed25519_ref10.c ${sodium}/crypto_hash/sha256/cp/hash_sha256_cp.c
  ${sodium}/crypto_hash/sha512/cp/hash_sha512_cp.c ${sodium}/crypto_verify/verify.c ${sodium}/sodium/utils.c)
target_include_directories(sodium_part PUBLIC ${sodium}/include PRIVATE ${sodium}/include/sodium)
target_compile_definitions(sodium_part PUBLIC SODIUM_STATIC PRIVATE CONFIGURED=1)
target_compile_options(sodium_part PRIVATE -ffunction-sections -fdata-sections)
