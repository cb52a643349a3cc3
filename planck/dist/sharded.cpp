#include "planck/dist/sharded.h"

namespace planck::dist {

std::map<std::string, int, std::less<>> owners_of(std::vector<OwnedPath> paths, int workers) {
  std::stable_sort(paths.begin(), paths.end(), [](const OwnedPath& a, const OwnedPath& b) {
    return a.elements != b.elements ? a.elements > b.elements : a.path < b.path;
  });
  std::vector<std::int64_t> load(static_cast<std::size_t>(workers));
  std::map<std::string, int, std::less<>> owners;
  for (const OwnedPath& p : paths) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += p.elements;
    owners.emplace(p.path, static_cast<int>(least - load.begin()));
  }
  return owners;
}

nn::StateDict owned_part(const nn::StateDict& state,
                         const std::map<std::string, int, std::less<>>& owners, int worker) {
  nn::StateDict part;
  for (const auto& [name, entry] : state) {
    int owner = -1;
    for (auto dot = name.find('.'); dot != std::string::npos && owner < 0;
         dot = name.find('.', dot + 1))
      if (const auto found = owners.find(name.substr(dot + 1)); found != owners.end())
        owner = found->second;
    if (owner < 0 || owner == worker) part.emplace(name, entry);
  }
  return part;
}

}  // namespace planck::dist
