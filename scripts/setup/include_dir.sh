# .toolchain/include: symlinks to the header libraries used, so that native and wasm builds can see them with
# -isystem without seeing the rest of /usr/include (which breaks wasm builds).

make_include_dir() {
  local name prefix
  rm -rf "$toolchain/include.new"
  mkdir -p "$toolchain/include.new/onnx"
  for name in flatbuffers simde doctest CLI rapidjson xxhash.h onnx/onnx.proto; do
    for prefix in /usr/include /usr/local/include /opt/homebrew/include; do
      [[ -e $prefix/$name ]] && ln -s "$prefix/$name" "$toolchain/include.new/$name" && continue 2
    done
    fail "found no $name in /usr/include or /usr/local/include"
  done
  # Replaced only when it differs: a new directory would make every build file look older than it.
  if ! [[ -d $toolchain/include ]] || ! diff -q <(links_in "$toolchain/include") <(links_in "$toolchain/include.new") >/dev/null; then
    rm -rf "$toolchain/include"
    mv "$toolchain/include.new" "$toolchain/include"
  else
    rm -rf "$toolchain/include.new"
  fi
}

links_in() { (cd "$1" && find . -type l -exec ls -l {} + | sed 's/.* \.\//.\//' | sort); }
