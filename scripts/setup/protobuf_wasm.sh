# protobuf-lite for wasm, from Debian's source of the very version that protoc and the native library have:
# .toolchain/protobuf-wasm/include, lib/libprotobuf-lite.a and, for shared memory, lib/libprotobuf-lite-ww.a.

make_protobuf_wasm() {
  local key version out=$toolchain/protobuf-wasm
  version=$(protobuf_version)
  key="$version 1 $emscripten_root"
  is_done protobuf_wasm "$key" && [[ -f $out/lib/libprotobuf-lite.a ]] && return 0
  run_step "protobuf-lite $version for wasm: source" \
    'Is the network up? The source comes from the Debian archive this machine uses.' fetch_protobuf "$version"
  run_step "protobuf-lite $version for wasm: building" 'Delete .toolchain/protobuf-build and run this script again.' \
    build_protobuf "$out"
  rm -rf "$toolchain/protobuf-build"
  mark_done protobuf_wasm "$key"
}

protobuf_version() {
  dpkg-query --show --showformat='${source:Version}' libprotobuf-dev
}

fetch_protobuf() {
  local version=$1 dir=$toolchain/protobuf-build
  rm -rf "$dir"
  mkdir -p "$dir/archive"
  debian_sources | prepare_archive "$dir/archive" deb-src
  cd "$dir/archive/files"
  archive_apt "$dir/archive" source --download-only "protobuf=$version"
  dpkg-source --no-check --extract protobuf_*.dsc "$dir/source"
}

build_protobuf() {
  local out=$1 dir=$toolchain/protobuf-build
  rm -rf "$out"
  mkdir -p "$out"
  build_protobuf_variant "$out" '' ''
  build_protobuf_variant "$out" '-ww' '-matomics -mbulk-memory -sSHARED_MEMORY'
}

build_protobuf_variant() {
  local out=$1 suffix=$2 flags=$3 dir=$toolchain/protobuf-build
  cmake -S "$dir/source" -B "$dir/build$suffix" -G Ninja \
    -DCMAKE_TOOLCHAIN_FILE="$emscripten_root/cmake/Modules/Platform/Emscripten.cmake" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE='-Oz -DNDEBUG' \
    -DCMAKE_CXX_FLAGS="-fno-exceptions -fno-rtti -ffunction-sections -fdata-sections -w $flags" \
    -DCMAKE_INSTALL_PREFIX="$out" -DCMAKE_INSTALL_LIBDIR=lib \
    -Dprotobuf_BUILD_TESTS=OFF -Dprotobuf_BUILD_PROTOC_BINARIES=OFF -Dprotobuf_WITH_ZLIB=OFF
  cmake --build "$dir/build$suffix" --target libprotobuf-lite
  mkdir -p "$out/lib"
  cp "$dir/build$suffix/libprotobuf-lite.a" "$out/lib/libprotobuf-lite$suffix.a"
  # Only the headers: `install` would build the full library too.
  (cd "$dir/source/src" && find google -name '*.h' -o -name '*.inc' | tar --create --files-from -) |
    { mkdir -p "$out/include" && tar --extract --directory "$out/include"; }
}
