# Emscripten: the emcc on PATH if it is new enough, else a private copy of Debian trixie's in .toolchain/emscripten.
# Older ones than 3.1.69 emit relaxed-SIMD opcodes that browsers have since withdrawn.

emscripten_least=3.1.69
emscripten_suite=trixie
emscripten_copy=$toolchain/emscripten
binaryen_copy=$toolchain/binaryen

# Prints the path of an emcc of the user's that is new enough.
find_new_emcc() {
  local emcc key version
  # Not our own, nor that of another checkout, which are on PATH where some .toolchain/env.sh was sourced: a private copy
  # made of a private copy may be made of itself.
  emcc=$(PATH=${PATH//"$toolchain/bin:"/} && PATH=${PATH//"${TILEKILN_TOOLCHAIN:-$toolchain}/bin:"/} && command -v emcc) ||
    return 1
  # Asking for the version takes most of a second, so the answer is kept until the file changes.
  key="$emcc $(date -r "$emcc" +%s)"
  if ! is_done emcc_on_path "$key"; then
    version=$(emcc_version "$emcc")
    [[ -n $version ]] && version_at_least "$version" "$emscripten_least" || return 1
    mark_done emcc_on_path "$key"
  fi
  echo "$emcc"
}

emcc_version() { "$1" --version 2>/dev/null | sed -nE '1s/.* ([0-9]+\.[0-9]+\.[0-9]+).*/\1/p'; }

# Sets the folders of Emscripten and of the LLVM and Binaryen it runs.
choose_emscripten() {
  local emcc
  if emcc=$(find_new_emcc); then
    emscripten_root=$(dirname "$(readlink -f "$emcc")")
    local em_config=$emscripten_root/em-config
    [[ -x $em_config ]] || fail "there is $emcc, but no em-config beside it"
    llvm_root=$("$em_config" LLVM_ROOT)
    binaryen_root=$("$em_config" BINARYEN_ROOT)
    emscripten_cache=$("$em_config" CACHE)
  else
    emscripten_root=$emscripten_copy
    llvm_root=/usr/lib/llvm-19/bin
    binaryen_root=$binaryen_copy
    emscripten_cache=$emscripten_copy/cache
  fi
}

make_emscripten() {
  local key="1 $emscripten_root" archive=$toolchain/archive
  if is_done emscripten "$key" && [[ -f $emscripten_root/emcc.py ]]; then return 0; fi
  if [[ $emscripten_root == "$emscripten_copy" ]]; then
    command -v apt-get >/dev/null || fail "found no emcc $emscripten_least or newer on PATH" \
      'Install Emscripten by its emsdk, put it on PATH and run this script again.'
    run_step "Emscripten: downloading from Debian $emscripten_suite (250 MB)" \
      "Is the network up, and does the mirror have that suite? Or put an emsdk's emcc $emscripten_least or newer on PATH." \
      download_emscripten "$archive"
    run_step 'Emscripten: unpacking' 'Is the disk full? It needs 1 GB.' unpack_emscripten "$archive/files"
    rm -rf "$archive"
  fi
  run_step 'Emscripten: checking that it links and runs' \
    'Delete .toolchain and run this script again.' check_emscripten
  mark_done emscripten "$key"
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
  local files=$1 name left_out=()
  rm -rf "$emscripten_copy" "$binaryen_copy"
  mkdir -p "$emscripten_copy/node_modules" "$binaryen_copy/unpacked"

  # The package is 1.6 GB, most of it libraries built in every variant; those left out are built if they are asked for.
  for name in pic lto-pic '*/*-mt*.a' '*/*san*.a' '*/libGL-*[eow][mfb]*.a' '*/libwasmfs*.a' '*/libSDL*.a'; do
    left_out+=(--exclude="*/sysroot/lib/wasm32-emscripten/${name#\*/}" --exclude="*/sysroot/lib/wasm32-emscripten/lto/${name#\*/}")
  done
  for name in test out media docs 'ChangeLog.*' third_party/closure-compiler; do
    left_out+=(--exclude="./usr/share/emscripten/$name")
  done
  unpack emscripten "$emscripten_copy" --strip-components=4 "${left_out[@]}" ./usr/share/emscripten
  unpack node-acorn "$emscripten_copy/node_modules" --strip-components=4 ./usr/share/nodejs/acorn
  for name in binaryen libc6 libstdc++6 libgcc-s1; do
    unpack "$name" "$binaryen_copy/unpacked" --exclude=./usr/share --exclude='*/gconv' --exclude=./usr/include
  done
  wrap_binaryen
  write_emscripten_config
}

unpack() {
  local name=$1 dir=$2
  shift 2
  dpkg --fsys-tarfile "$files/$name"_*.deb | tar --extract --directory "$dir" "$@"
}

# Each of Binaryen's programs gets a wrapper that runs it with the unpacked loader and libraries.
wrap_binaryen() {
  local loader libraries program
  loader=$(find "$binaryen_copy/unpacked" -name 'ld-linux*.so*' | head -n 1)
  libraries=$(dirname "$(find "$binaryen_copy/unpacked" -name libbinaryen.so)")
  mkdir -p "$binaryen_copy/bin"
  for program in "$binaryen_copy"/unpacked/usr/bin/wasm*; do
    write_program "$binaryen_copy/bin/${program##*/}" "$loader" --library-path "$libraries" "$program"
  done
}

# write_program FILE WORD…: FILE becomes a script that runs WORD… with its own arguments after them.
write_program() {
  local file=$1
  shift
  { printf '#!/bin/sh\nexec' && printf " '%s'" "$@" && printf ' "$@"\n'; } >"$file"
  chmod +x "$file"
}

# Written into Emscripten's own folder, where it is found without EM_CONFIG in the environment.
write_emscripten_config() {
  cat >"$emscripten_copy/.emscripten" <<CONFIG
LLVM_ROOT = '$llvm_root'
BINARYEN_ROOT = '$binaryen_copy'
NODE_JS = '$(command -v node)'
CACHE = '$emscripten_cache'
FROZEN_CACHE = False
CONFIG
  # The python3 that comes first on PATH may be a slow shim.
  if [[ -x /usr/bin/python3 ]]; then
    sed -i 's|PYTHON=\$EMSDK_PYTHON|PYTHON=${EMSDK_PYTHON:-/usr/bin/python3}|' "$emscripten_copy"/em*
  fi
}

# Links one program for a single thread and one over shared memory, so that the libraries of both are there.
check_emscripten() {
  local dir=$toolchain/check version
  local flags=(-O3 -msimd128 -mrelaxed-simd -fno-exceptions -fno-rtti)
  version=$(emcc_version "$emscripten_root/emcc")
  version_at_least "$version" "$emscripten_least" || {
    echo "emcc says version '$version'"
    return 1
  }
  rm -rf "$dir"
  mkdir -p "$dir"
  cat >"$dir/a.cc" <<'SOURCE'
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
  "$emscripten_root/em++" "${flags[@]}" --no-entry -sSTANDALONE_WASM -sALLOW_MEMORY_GROWTH -sMALLOC=emmalloc \
    "$dir/a.cc" -o "$dir/a.wasm"
  node --experimental-wasm-relaxed-simd -e '
    const bytes = require("fs").readFileSync(process.argv[1]);
    const stub = new Proxy({}, { get: () => () => 0 });
    WebAssembly.instantiate(bytes, { env: stub, wasi_snapshot_preview1: stub }).then(({ instance }) => {
      instance.exports._initialize?.();
      if (instance.exports.sum(64) !== 16 * 3 + 2) process.exit(1);
    });' "$dir/a.wasm"

  # Threads use shared memory without pthreads. em++ cannot link that: wasm-ld does, with the -ww libraries.
  local lib libs=() lib_dir=$emscripten_cache/sysroot/lib/wasm32-emscripten
  for lib in emmalloc-ww c_optz-ww c-ww compiler_rt-ww c++-ww-noexcept c++abi-ww-noexcept; do
    [[ -f $lib_dir/lib$lib.a ]] || "$emscripten_root/embuilder" build "lib$lib"
    libs+=("-l$lib")
  done
  "$emscripten_root/em++" "${flags[@]}" -matomics -mbulk-memory -sSHARED_MEMORY -c "$dir/a.cc" -o "$dir/a.o"
  "$llvm_root/wasm-ld" "$dir/a.o" "-L$lib_dir" "${libs[@]}" --no-entry --gc-sections --allow-undefined \
    --import-memory --shared-memory --initial-memory=1048576 --max-memory=1073741824 -z stack-size=65536 --stack-first \
    --export=__stack_pointer --export=__wasm_init_tls -o "$dir/a-shared.wasm"
  rm -rf "$dir"
}
