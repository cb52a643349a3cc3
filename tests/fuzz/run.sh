#!/usr/bin/env bash
# Fuzzes the parsers of safetensors, npy, IDX, GGUF and PyTorch files, of indexes, states and schemes, under the address and undefined-behaviour sanitizers.
#   tests/fuzz/run.sh [SECONDS] [FOLDER]          20 seconds each, in build/fuzz, where the corpora are kept between runs
#   tests/fuzz/run.sh --runs 10000000 [FOLDER]    so many inputs each, however long it takes
# Every reader is held to memory of 32 times its input and 64 KiB (hold.h).
# Exits non-zero on a finding; the input that shows it is left in FOLDER as TARGET-crash-… or TARGET-oom-….
set -euo pipefail
if [[ ${1:-} == --runs ]]; then
  [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || { echo "fuzz: --runs needs a number of inputs" >&2; exit 2; }
  limit=-runs=$2 amount="$2 inputs"
  shift
else
  limit=-max_total_time=${1:-20} amount="${1:-20} seconds"
fi
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=${2:-$root/build/fuzz}
compiler=${CXX_FUZZ:-clang++-19}
command -v "$compiler" >/dev/null || { echo "fuzz: $compiler not found (Debian: clang-19, libclang-rt-19-dev)" >&2; exit 2; }
mkdir -p "$folder/corpus" "$folder/arrays"

# build TARGET SOURCE…, below planck/io unless it begins with a folder of the root: noted here, made below.
declare -A needed=()  # object files of a target
declare -A made=()    # object file: its source
targets=()
build() {
  local source object
  targets+=("$1")
  for source in "tests/fuzz/$1.cpp" "${@:2}"; do
    case $source in planck/* | tests/*) ;; *) source=planck/io/$source ;; esac
    object="$folder/objects/${source//\//_}.o"
    made[$object]=$root/$source
    needed[$1]+="$object"$'\n'
  done
}
header=(safetensors_header.cpp safetensors_json.cpp printable.cpp)
encoding=(checkpoint/encoding.cpp checkpoint/narrow_floats.cpp gguf/decode_blocks.cpp "${header[@]}")
build safetensors_fuzz "${header[@]}"
build arrays_fuzz npy_header.cpp idx.cpp mapped_file.cpp planck/core/shape.cpp "${header[@]}"
build gguf_fuzz gguf/gguf_header.cpp "${encoding[@]}"
build torch_fuzz torch/pickle.cpp torch/pickle_state.cpp torch/pickle_values.cpp torch/torch_file.cpp torch/zip_directory.cpp "${encoding[@]}"
build state_fuzz planck/nn/state_file.cpp planck/ops/quantize/quantize.format.cpp safetensors.cpp output_file.cpp sha256.cpp \
  mapped_file.cpp planck/core/{shape,owned_tensor,allocator,stream,cuda/absent,cuda/architectures,view}.cpp "${header[@]}"
build index_fuzz checkpoint/index.cpp mapped_file.cpp "${encoding[@]}"

# Every source once, with the flags of all targets; as many at a time as there are cores.
rm -rf "$folder/objects"  # headers may have changed
mkdir -p "$folder/objects"
for object in "${!made[@]}"; do
  printf '%s\0-o\0%s\0' "${made[$object]}" "$object"
done | xargs -0 -n 3 -P "$(nproc)" "$compiler" -std=c++20 -O1 -g1 -DFMT_HEADER_ONLY \
  -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -Wall -Wextra -Wno-deprecated-declarations \
  -I"$root" -c
for target in "${targets[@]}"; do
  mapfile -t objects <<<"${needed[$target]%$'\n'}"
  "$compiler" -fsanitize=fuzzer,address,undefined "${objects[@]}" -o "$folder/$target"
done
python3 "$root"/tests/fuzz/seeds.py "$folder"

# seed NAME JSON DATA_BYTES: a file with a true header length.
seed() {
  local length=${#2}
  { printf "\\x$(printf %02x $((length & 255)))\\x$(printf %02x $((length >> 8)))\\0\\0\\0\\0\\0\\0"
    printf %s "$2"
    head -c "$3" /dev/zero; } >"$folder/corpus/$1"
}
seed empty '{}' 0
seed metadata '{"__metadata__":{"format":"pt","k":"\u00e9\n"}}' 0
seed f32 '{"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}' 24
seed scalar '{"s":{"dtype":"F64","shape":[],"data_offsets":[0,8]}}' 8
seed mixed '{"a":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]},"b":{"dtype":"I8","shape":[1,3],"data_offsets":[8,11]}}' 11
seed narrow '{"q":{"dtype":"F4","shape":[6],"data_offsets":[0,3]},"e":{"dtype":"U8","shape":[0],"data_offsets":[3,3]}}   ' 3
seed hole '{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}' 2
seed huge '{"a":{"dtype":"U64","shape":[9223372036854775807,3],"data_offsets":[0,18446744073709551615]}}' 2
printf '"dtype"\n"shape"\n"data_offsets"\n"__metadata__"\n"F8_E4M3"\n"BOOL"\n' >"$folder/words"

# array NAME VERSION HEADER DATA_BYTES: an npy file with a true header length.
array() {
  { printf "\\x93NUMPY\\x$2\\0\\x$(printf %02x ${#3})\\0"
    [[ $2 == 01 ]] || printf '\0\0'
    printf %s "$3"
    head -c "$4" /dev/zero; } >"$folder/arrays/$1"
}
array f4 01 "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }" 24
array scalar 02 "{'descr': '<f8', 'fortran_order': True, 'shape': (), }" 8
array bytes 03 "{'descr': '|u1', 'fortran_order': False, 'shape': (0, 5), }" 0
array one 01 "{'shape':(3,),'fortran_order':False,'descr':\"<i8\"}" 24
array huge 01 "{'descr': '<f2', 'fortran_order': False, 'shape': (9223372036854775807, 3), }" 2
printf '\0\0\x08\x01\0\0\0\3abc' >"$folder/arrays/labels"
printf '\0\0\x08\x03\0\0\0\1\0\0\0\2\0\0\0\2abcd' >"$folder/arrays/images"
printf '"descr"\n"fortran_order"\n"shape"\n"True"\n"False"\n"<f4"\n"|b1"\n' >"$folder/array_words"

printf '"GGUF"\n"general.alignment"\n"tokenizer"\n' >"$folder/gguf_words"
printf '"%s"\n' 'ctorch._utils\x0a_rebuild_tensor_v2\x0a' 'ctorch\x0aFloatStorage\x0a' storage data.pkl 'PK\x01\x02' \
  'PK\x05\x06' >"$folder/torch_words"
printf '"\\"weight_map\\""\n"metadata"\n"null"\n' >"$folder/index_words"
printf '"%s"\n' planck.state planck.state.sha256 'dtype of ' per_channel per_group original_shape original_dtype symmetric \
  >"$folder/state_words"

# As many at a time as there are cores. What one says goes to TARGET.log; its counts are shown when it ends, or all of it
# where it has found something.
cd "$folder"
declare -A running=()  # process: target
findings=()
trap '((${#running[@]} == 0)) || kill "${!running[@]}" 2>/dev/null || true' EXIT
reap() {  # waits for the first to end
  local process status=0
  wait -n -p process "${!running[@]}" || status=$?
  local target=${running[$process]}
  unset "running[$process]"
  if ((status)); then
    findings+=("$target")
    printf '%s ended with exit code %s:\n' "$target" "$status"
    cat "$target.log"
  else
    awk -v target="$target" '/number_of_executed_units/ { n = $2 } /average_exec_per_sec/ { rate = $2 } /peak_rss_mb/ { mb = $2 }
      END { printf "%s: %d inputs, %d in a second, %d MB\n", target, n, rate, mb }' "$target.log"
  fi
}
fuzz() {  # fuzz TARGET CORPUS WORDS
  if ((${#running[@]} >= $(nproc))); then reap; fi
  # Nobody else adds to a corpus; and 16 MB of freed memory are those of many inputs.
  ASAN_OPTIONS=quarantine_size_mb=16 "./$1" "$2" -dict="$3" "$limit" -reload=0 -max_len=4096 -malloc_limit_mb=64 -rss_limit_mb=1024 \
    -timeout=10 -print_final_stats=1 -verbosity=0 -artifact_prefix="$folder/$1-" >"$1.log" 2>&1 &
  running[$!]=$1
}
fuzz safetensors_fuzz corpus words
fuzz arrays_fuzz arrays array_words
fuzz gguf_fuzz gguf gguf_words
fuzz torch_fuzz torch torch_words
fuzz index_fuzz index index_words
fuzz state_fuzz state state_words
while ((${#running[@]} > 0)); do reap; done
if ((${#findings[@]} > 0)); then
  echo "fuzz: a finding of ${findings[*]}: see above" >&2
  exit 1
fi
echo "fuzz: no finding in $amount each"
