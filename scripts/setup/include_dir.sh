# .toolchain/include: symlinks to the header libraries used, so that native and wasm builds can see them with
# -isystem without seeing the rest of /usr/include (which breaks wasm builds).

make_include_dir() {
  local name prefix
  mkdir -p "$toolchain/include/onnx"
  for name in flatbuffers simde doctest CLI rapidjson xxhash.h onnx/onnx.proto; do
    [[ ! -e $toolchain/include/$name ]] || continue
    for prefix in /usr/include /usr/local/include /opt/homebrew/include; do
      [[ -e $prefix/$name ]] && ln -sfn "$prefix/$name" "$toolchain/include/$name" && continue 2
    done
    fail "found no $name in /usr/include or /usr/local/include"
  done
}
