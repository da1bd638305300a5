# Tells others where everything is: .toolchain/env.sh for shells, env.json for Node, env.cmake for CMake; and gathers
# the programs of the wasm toolchain in .toolchain/bin.

write_environment() {
  local chromium onnx_tests
  chromium=$(find_chromium || true)
  onnx_tests=$(find_onnx_tests)
  # Which Emscripten it is was decided by the last set-up of wasm.
  if wants wasm; then
    {
      declare -p emscripten_root emscripten_cache llvm_root binaryen_root
      printf 'emscripten_version=%s\n' "$(tr -d '"\n' <"$emscripten_root/emscripten-version.txt")"
    } | sed 's/^declare -- //' | write_if_changed emscripten.sh
    write_programs
  fi
  local emscripten_root='' emscripten_cache='' llvm_root='' binaryen_root='' emscripten_version=''
  [[ ! -f $toolchain/emscripten.sh ]] || source "$toolchain/emscripten.sh"
  local sysroot=${emscripten_cache:+$emscripten_cache/sysroot}

  write_if_changed env.sh <<SHELL
# Made by scripts/setup.sh. Source it to have em++, wasm-ld and wasm-opt on PATH.
export TILEKILN_TOOLCHAIN='$toolchain'
export EM_SYSROOT='$sysroot'
case ":\$PATH:" in *":\$TILEKILN_TOOLCHAIN/bin:"*) ;; *) export PATH="\$TILEKILN_TOOLCHAIN/bin:\$PATH" ;; esac
SHELL
  write_if_changed env.json <<JSON
{
  "emscripten": { "version": "$emscripten_version", "root": "$emscripten_root", "sysroot": "$sysroot" },
  "llvm": "$llvm_root",
  "binaryen": "$binaryen_root",
  "bin": "$toolchain/bin",
  "include": "$toolchain/include",
  "protobufWasm": "$toolchain/protobuf-wasm",
  "onnxTestdata": "$onnx_tests",
  "chromium": "$chromium"
}
JSON
  write_if_changed env.cmake <<CMAKE
set(KILN_EMSCRIPTEN_ROOT "$emscripten_root")
set(KILN_EMSCRIPTEN_SYSROOT "$sysroot")
set(KILN_LLVM_ROOT "$llvm_root")
set(KILN_BINARYEN_ROOT "$binaryen_root")
set(KILN_INCLUDE_DIR "$toolchain/include")
set(KILN_PROTOBUF_WASM_DIR "$toolchain/protobuf-wasm")
set(KILN_ONNX_TESTDATA_DIR "$onnx_tests")
CMAKE
}

# Wrappers, because Emscripten's launchers look for their Python beside themselves.
write_programs() {
  local name bin=$toolchain/bin
  is_done programs "1 $emscripten_root $llvm_root $binaryen_root" && return 0
  rm -f "$bin"/*
  for name in emcc em++ emar emranlib emcmake em-config embuilder; do
    write_program "$bin/$name" "$emscripten_root/$name"
  done
  for name in wasm-opt wasm-dis wasm-metadce; do write_program "$bin/$name" "$binaryen_root/bin/$name"; done
  write_program "$bin/wasm-ld" "$llvm_root/wasm-ld"
  mark_done programs "1 $emscripten_root $llvm_root $binaryen_root"
}

# The file keeps its date when nothing changed, so that CMake does not configure again.
write_if_changed() {
  local file=$toolchain/$1
  cat >"$file.new"
  if cmp -s "$file" "$file.new"; then rm "$file.new"; else mv "$file.new" "$file"; fi
}

# The folder that has node/test_relu/model.onnx and its like.
find_onnx_tests() {
  local dir=/usr/share/libonnx-testdata/data
  [[ ! -d $dir/node ]] || printf %s "$dir"
}
