// cpu_targets IN OUT TARGET THREADS SCHEME DTYPE METHOD FORMAT: quantizes a checkpoint as if this
// CPU had no better instruction set than TARGET ("avx512", "avx2", "baseline"). Exit code 77: this
// CPU has less.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "planck/core/cpu/target.h"
#include "tools/planck/checkpoint/checkpoint_quantizer.h"

int main(int argc, char** argv) {
  using namespace planck;
  using namespace planck::cli;
  if (argc != 9) return 2;
  const std::string in = argv[1], out = argv[2], target = argv[3], scheme = argv[5],
                    dtype = argv[6], method = argv[7], format = argv[8];
  const int threads = std::atoi(argv[4]);
  if (!limit_cpu_target(target)) return 77;
  QuantizeOptions options;
  options.scheme.scheme = scheme;
  options.scheme.group = 128;
  options.method = method == "mse" ? Method::mse : Method::rtn;
  if (format == "gguf") {
    options.format = CheckpointFormat::gguf;
    options.blocks = find_encoding(dtype);
  } else {
    options.scheme.dtype = *parse_dtype(dtype);
    if (format == "compressed-tensors") options.format = CheckpointFormat::compressed_tensors;
  }
  const auto source = CheckpointSource::open(in);
  const auto report = source ? quantize_checkpoint(*source, out, options, Stream::cpu(), threads)
                             : Result<CheckpointReport>(tl::unexpected(source.error()));
  if (!report) {
    std::fprintf(stderr, "%s\n", report.error().message.c_str());
    return 1;
  }
  for (const TensorReport& t : report->tensors)
    std::printf("%a %a %a %lld\n", t.error.noise, t.error.signal, t.error.max_abs,
                static_cast<long long>(t.error.non_finite));
  return 0;
}
