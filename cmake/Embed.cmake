# planck_embed(FUNCTION FILE OUTPUT)
#
# Writes the C++ source OUTPUT, in which `std::string_view planck::FUNCTION()` returns the bytes of FILE. At configure
# time, again when FILE changes; OUTPUT is touched only when its contents differ.
function(planck_embed function file output)
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(REPLACE "0x0a," "0x0a,\n" bytes "${bytes}")
  file(CONFIGURE OUTPUT ${output} @ONLY CONTENT "// Made by cmake/Embed.cmake.
#include <string_view>
namespace planck {
std::string_view @function@();
namespace {
constexpr unsigned char kBytes[] = {
@bytes@};
}  // namespace
std::string_view @function@() { return {reinterpret_cast<const char*>(kBytes), sizeof(kBytes)}; }
}  // namespace planck
")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
endfunction()
