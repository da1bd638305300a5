# Tells others where everything is: .toolchain/env.sh for shells, env.json for Node, env.cmake for CMake.

write_environment() {
  local sysroot='' llvm='' binaryen='' emscripten='' version='' chromium='' onnx_tests=''
  if [[ -f $toolchain/stamps/emscripten_check ]]; then
    if [[ -z ${emscripten_root:-} ]]; then
      emscripten_root=$(sed 's/^path //;t;s/.*//' "$toolchain/stamps/emscripten_check")
      emscripten_is_private=false
      [[ -n $emscripten_root ]] || { emscripten_root=$emscripten_dir emscripten_is_private=true; }
    fi
    emscripten=$emscripten_root
    version=$(tr -d '"\n' <"$emscripten/emscripten-version.txt")
    if $emscripten_is_private; then
      sysroot=$emscripten/cache/sysroot llvm=$llvm_dir binaryen=$binaryen_dir
    else
      sysroot=$("$emscripten/em-config" CACHE)/sysroot
      llvm=$("$emscripten/em-config" LLVM_ROOT)
      binaryen=$("$emscripten/em-config" BINARYEN_ROOT)
    fi
  fi
  chromium=$(find_chromium || true)
  onnx_tests=$(find_onnx_tests)

  write_if_changed env.sh <<SHELL
# Made by scripts/setup.sh; source it to have em++, wasm-opt and wasm-ld on PATH.
export TILEKILN_TOOLCHAIN='$toolchain'
${emscripten:+export PATH="$emscripten:$binaryen/bin:$llvm:\$PATH"
export EM_SYSROOT='$sysroot'}
$(if [[ -n $emscripten ]] && $emscripten_is_private; then
    printf "export EM_CONFIG='%s'\nexport EM_CACHE='%s'\nexport EMSDK_PYTHON=/usr/bin/python3\n" "$emscripten/.emscripten" "$emscripten/cache"
  fi)
SHELL
  write_if_changed env.json <<JSON
{
  "emscripten": { "version": "$version", "root": "$emscripten", "sysroot": "$sysroot" },
  "llvm": "$llvm",
  "binaryen": "$binaryen",
  "include": "$toolchain/include",
  "protobufWasm": "$toolchain/protobuf-wasm",
  "onnxTestdata": "$onnx_tests",
  "chromium": "$chromium"
}
JSON
  write_if_changed env.cmake <<CMAKE
set(KILN_EMSCRIPTEN_ROOT "$emscripten")
set(KILN_EMSCRIPTEN_SYSROOT "$sysroot")
set(KILN_LLVM_ROOT "$llvm")
set(KILN_BINARYEN_ROOT "$binaryen")
set(KILN_INCLUDE_DIR "$toolchain/include")
set(KILN_PROTOBUF_WASM_DIR "$toolchain/protobuf-wasm")
set(KILN_ONNX_TESTDATA_DIR "$onnx_tests")
CMAKE
}

# The file keeps its date when nothing changed, so that CMake does not configure again.
write_if_changed() {
  local file=$toolchain/$1
  cat >"$file.new"
  if cmp -s "$file" "$file.new"; then rm "$file.new"; else mv "$file.new" "$file"; fi
}

find_onnx_tests() {
  local dir
  for dir in /usr/share/libonnx-testdata /usr/share/onnx; do [[ -d $dir ]] && printf %s "$dir" && return 0; done
  return 0
}
