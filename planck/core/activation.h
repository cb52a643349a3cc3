// What a product's elements may become as they are stored: planck/math/activation.h has the
// functions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace planck {

enum class Activation : std::uint8_t { none, relu, gelu, silu };

inline constexpr std::array<Activation, 4> kAllActivations = {Activation::none, Activation::relu,
                                                              Activation::gelu, Activation::silu};

constexpr std::string_view name(Activation a) {
  constexpr std::string_view kNames[] = {"none", "relu", "gelu", "silu"};
  return kNames[static_cast<int>(a)];
}

constexpr std::optional<Activation> parse_activation(std::string_view text) {
  for (Activation a : kAllActivations)
    if (name(a) == text) return a;
  return std::nullopt;
}

}  // namespace planck
