// Who watches ops: what is left where one of them throws, and traces that others can read.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "planck/io/test/temporary_directory.test.h"
#include "planck/training.h"
#include "tests/nn/thrown.h"

namespace planck::test {

namespace {

using A = Autodiff<Cpu>;
using F = std::vector<float>;

// An op that would have written over its input is refused with the input as it was.
TEST(Anomaly, LeavesWhatTheOpWasGiven) {
  auto x = Tensor<Cpu>::from({1.f, -1.f, 4.f}, {3}) * 1;
  const auto refusal = [&] { return message([&] { (void)sqrt(std::move(x)); }); };
  {
    const Anomaly watch;
    EXPECT_NE(refusal().find("sqrt: made the first NaN"), std::string::npos);
    EXPECT_EQ(x.to_vector<float>(), F({1, -1, 4}));
    const Profile inside;  // whoever else watches
    EXPECT_NE(refusal().find("sqrt: made the first NaN"), std::string::npos);
    EXPECT_EQ(x.to_vector<float>(), F({1, -1, 4}));
  }
  EXPECT_EQ(refusal(), "nothing was thrown");
}

// One that watches and fails when the kernel has run: no input has the results in it.
class Failing final : public Observer {
 protected:
  void begin(const RunningOp&) noexcept override {}
  void end(const RunningOp&) override { raise(ErrorCode::io, "no more"); }
};
TEST(Observers, ThatFailReturnNoBufferThatWasWrittenTo) {
  auto x = Tensor<Cpu>::from({1.f, 2.f, 4.f}, {3}) * 1;
  const void* buffer = x.primitive().storage->data();
  const Failing watch;
  EXPECT_EQ(message([&] { (void)sqrt(std::move(x)); }), "no more");
  EXPECT_FALSE(x.primitive().storage && x.primitive().storage->data() == buffer);
}

// A trace is JSON whose events are those of the profile, in order.
void check_trace(const std::string& text, const Profile& profile) {
  const auto trace = nlohmann::json::parse(text, nullptr, false);
  ASSERT_TRUE(trace.is_object()) << text;
  EXPECT_EQ(trace.at("displayTimeUnit"), "ms");
  const auto& events = trace.at("traceEvents");
  ASSERT_EQ(events.size(), profile.events().size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Profile::Event& e = profile.events()[i];
    const auto& said = events[i];
    EXPECT_EQ(said.at("name"), e.op);
    EXPECT_EQ(said.at("ph"), "X");  // an event with a beginning and a length
    EXPECT_EQ(said.at("cat"), e.gradient_of.empty() ? "forward" : "backward");
    EXPECT_NEAR(said.at("ts").get<double>(), e.begin_us, 1e-3);
    EXPECT_NEAR(said.at("dur").get<double>(), e.microseconds, 1e-3);
    EXPECT_TRUE(said.at("pid").is_number_integer() && said.at("tid").is_number_integer());
    const auto& more = said.at("args");
    EXPECT_EQ(more.at("bytes_read"), e.bytes_read);
    EXPECT_EQ(more.at("bytes_written"), e.bytes_written);
    EXPECT_EQ(more.at("dtype"), e.dtype);
    EXPECT_EQ(more.at("shape"), to_string(e.shape));
  }
}

// Whatever ops are called.
TEST(Profile, TracesAreJson) {
  const Profile profile;
  check_trace(profile.trace(), profile);
  const auto x = Tensor<A>::from({1.f, 2.f, 3.f, 4.f}, {2, 2}).require_grad();
  (void)sum(exp(x) * x).backward();
  const TemporaryDirectory folder;
  profile.save_trace(folder.file("step.json"));
  check_trace(folder.contents("step.json"), profile);
  for (std::string_view name : {"my \"op\"", "back\\slash", "two\nlines\ttab", "größer", "\x01"})
    backend_detail::observed(name, Stream::cpu(1), {}, {}, [] {});
  EXPECT_GT(profile.events().size(), 8u);
  check_trace(profile.trace(), profile);
}

}  // namespace

}  // namespace planck::test
