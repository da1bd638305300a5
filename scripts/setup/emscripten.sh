# Emscripten: the emcc on PATH if it is new enough, else a private copy of Debian trixie's in .toolchain/emscripten.
# Older ones than 3.1.69 emit relaxed-SIMD opcodes that browsers have since withdrawn.

emscripten_least=3.1.69
emscripten_suite=trixie
emscripten_dir=$toolchain/emscripten
binaryen_dir=$toolchain/binaryen
llvm_dir=/usr/lib/llvm-19/bin

emcc_version() { "$1" --version 2>/dev/null | sed -nE '1s/.* ([0-9]+\.[0-9]+\.[0-9]+).*/\1/p'; }

# Asking emcc for its version takes most of a second, so the answer is kept until the file changes.
have_new_emcc() {
  local emcc key version
  emcc=$(command -v emcc) && [[ $emcc != "$emscripten_dir"/* ]] || return 1
  key="$emcc $(stat -Lc '%Y %s' "$emcc" 2>/dev/null || stat -Lf '%m %z' "$emcc")"
  if ! is_done emcc_on_path "$key"; then
    version=$(emcc_version "$emcc")
    [[ -n $version ]] && version_at_least "$version" "$emscripten_least" || return 1
    mark_done emcc_on_path "$key"
  fi
}

setup_emscripten() {
  local key
  if have_new_emcc; then
    emscripten_root=$(dirname "$(readlink -f "$(command -v emcc)")")
    [[ -f $emscripten_root/emcc.py ]] || emscripten_root=$(em-config EMSCRIPTEN_ROOT)
    emscripten_is_private=false
    key="path $emscripten_root"
  else
    emscripten_root=$emscripten_dir
    emscripten_is_private=true
    key="private $emscripten_suite 1 $root"
    if ! is_done emscripten_copy "$key" || ! [[ -f $emscripten_dir/emcc.py ]]; then
      command -v apt-get >/dev/null ||
        fail "found no emcc $emscripten_least or newer on PATH" 'Install Emscripten (emsdk), put it on PATH and run this script again.'
      local archive=$toolchain/archive
      run_step "Emscripten: downloading from Debian $emscripten_suite (250 MB)" \
        'Is the network up, and does the mirror have that suite? Or put an emsdk of 3.1.69 or newer on PATH.' \
        download_emscripten "$archive"
      run_step 'Emscripten: unpacking' 'Is the disk full? It needs 1 GB.' unpack_emscripten "$archive/files"
      rm -rf "$archive"
      mark_done emscripten_copy "$key"
    fi
  fi
  if ! is_done emscripten_check "$key"; then
    run_step 'Emscripten: checking that it links and runs' \
      'Delete .toolchain/emscripten and .toolchain/stamps and run this script again.' check_emscripten
    mark_done emscripten_check "$key"
  fi
}

download_emscripten() {
  local archive=$1
  rm -rf "$archive"
  mkdir -p "$archive"
  printf '%s %s\n' "$(debian_mirror)" "$emscripten_suite" | prepare_archive "$archive" deb
  # Binaryen comes with the libraries it was linked against, because they are newer than this machine's.
  cd "$archive/files"
  archive_apt "$archive" download emscripten binaryen libc6 libstdc++6 libgcc-s1 node-acorn
}

unpack_emscripten() {
  local files=$1
  rm -rf "$emscripten_dir" "$binaryen_dir"
  mkdir -p "$emscripten_dir/node_modules" "$binaryen_dir/bin" "$binaryen_dir/unpacked"

  # The package is 1.6 GB, most of it libraries built in every variant; those left out here are built on demand.
  local variants=(pic lto-pic) left_out=() name
  for name in "${variants[@]}"; do left_out+=(--exclude="*/sysroot/lib/wasm32-emscripten/$name"); done
  for name in '*-mt*.a' '*asan*.a' '*ubsan*.a' '*lsan*.a' 'libsanitizer*.a' 'libGL-*[eow][mfb]*.a' 'libwasmfs*.a' 'libSDL*.a'; do
    left_out+=(--exclude="*/sysroot/lib/*/$name")
  done
  for name in test out media docs 'ChangeLog.*' third_party/closure-compiler; do
    left_out+=(--exclude="./usr/share/emscripten/$name")
  done
  dpkg --fsys-tarfile "$files"/emscripten_*.deb |
    tar --extract --directory "$emscripten_dir" --strip-components=4 "${left_out[@]}" ./usr/share/emscripten

  dpkg --fsys-tarfile "$files"/node-acorn_*.deb |
    tar --extract --directory "$emscripten_dir/node_modules" --strip-components=4 ./usr/share/nodejs/acorn

  for name in binaryen libc6 libstdc++6 libgcc-s1; do
    dpkg --fsys-tarfile "$files/$name"_*.deb |
      tar --extract --directory "$binaryen_dir/unpacked" --exclude=./usr/share --exclude='*/gconv' --exclude=./usr/include
  done
  wrap_binaryen
  write_emscripten_config
}

# Each of Binaryen's programs gets a wrapper that runs it with the unpacked loader and libraries.
wrap_binaryen() {
  local loader library_path program
  loader=$(find "$binaryen_dir/unpacked" -name 'ld-linux*.so*' | head -n 1)
  library_path=$(dirname "$(find "$binaryen_dir/unpacked" -name 'libbinaryen.so' | head -n 1)")
  [[ $(dirname "$loader") == "$library_path" ]] || library_path+=:$(dirname "$loader")
  for program in "$binaryen_dir/unpacked"/usr/bin/wasm*; do
    printf '#!/bin/sh\nexec "%s" --library-path "%s" "%s" "$@"\n' "$loader" "$library_path" "$program" \
      >"$binaryen_dir/bin/${program##*/}"
    chmod +x "$binaryen_dir/bin/${program##*/}"
  done
}

# Written into Emscripten's own folder, where it is found without EM_CONFIG in the environment.
write_emscripten_config() {
  cat >"$emscripten_dir/.emscripten" <<CONFIG
LLVM_ROOT = '$llvm_dir'
BINARYEN_ROOT = '$binaryen_dir'
NODE_JS = '$(command -v node)'
CACHE = '$emscripten_dir/cache'
FROZEN_CACHE = False
CONFIG
  # The python3 that comes first on PATH may be a slow shim.
  [[ ! -x /usr/bin/python3 ]] ||
    sed -i 's|PYTHON=\$EMSDK_PYTHON|PYTHON=${EMSDK_PYTHON:-/usr/bin/python3}|' "$emscripten_dir"/em*
}

# Links one program alone and one over shared memory, so that the libraries of both are in the cache.
check_emscripten() {
  local dir=$toolchain/check version
  local flags=(-O3 -msimd128 -mrelaxed-simd -fno-exceptions -fno-rtti --no-entry)
  version=$(emcc_version "$emscripten_root/emcc")
  version_at_least "$version" "$emscripten_least" || { echo "emcc says version '$version'"; return 1; }
  rm -rf "$dir"
  mkdir -p "$dir"
  cat >"$dir/a.cc" <<'SOURCE'
#include <cstdlib>
#include <string>
#include <vector>
#include <wasm_simd128.h>
extern "C" __attribute__((export_name("sum"))) float sum(int n) {
  std::vector<float> v(n, 1.5f);
  v128_t s = wasm_f32x4_splat(0);
  for (int i = 0; i + 4 <= n; i += 4) s = wasm_f32x4_relaxed_madd(wasm_v128_load(&v[i]), wasm_f32x4_splat(2), s);
  return wasm_f32x4_extract_lane(s, 0) + std::to_string(n).size();
}
SOURCE
  "$emscripten_root/em++" "${flags[@]}" -sSTANDALONE_WASM -sALLOW_MEMORY_GROWTH -sMALLOC=emmalloc "$dir/a.cc" -o "$dir/a.wasm"
  link_shared "$dir"
  node --experimental-wasm-relaxed-simd -e '
    const bytes = require("fs").readFileSync(process.argv[1]);
    const stub = new Proxy({}, { get: () => () => 0 });
    WebAssembly.instantiate(bytes, { env: stub, wasi_snapshot_preview1: stub }).then(({ instance }) => {
      instance.exports._initialize?.();
      if (instance.exports.sum(64) !== 16 * 3 + 2) process.exit(1);
    });' "$dir/a.wasm"
  rm -rf "$dir"
}

# Threads use shared memory without pthreads, for which em++ cannot link: the -ww variants of the libraries, by wasm-ld.
link_shared() {
  local dir=$1 lib libs=() cache llvm
  cache=$("$emscripten_root/em-config" CACHE)
  llvm=$("$emscripten_root/em-config" LLVM_ROOT)
  for lib in emmalloc-ww c_optz-ww c-ww compiler_rt-ww c++-ww-noexcept c++abi-ww-noexcept; do
    [[ -f $cache/sysroot/lib/wasm32-emscripten/lib$lib.a ]] || "$emscripten_root/embuilder" build "lib$lib"
    libs+=("-l$lib")
  done
  "$emscripten_root/em++" -O3 -msimd128 -mrelaxed-simd -matomics -mbulk-memory -sSHARED_MEMORY -fno-exceptions -fno-rtti \
    -c "$dir/a.cc" -o "$dir/a-shared.o"
  "$llvm/wasm-ld" "$dir/a-shared.o" "-L$cache/sysroot/lib/wasm32-emscripten" "${libs[@]}" --no-entry --gc-sections \
    --import-memory --shared-memory --initial-memory=1048576 --max-memory=1073741824 -z stack-size=65536 --stack-first \
    --export=__stack_pointer --export=__wasm_init_tls --allow-undefined -o "$dir/a-shared.wasm"
}
