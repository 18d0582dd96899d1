// Who may: API keys, compared in a time that says nothing about them.
#pragma once
#include <array>
#include <string>
#include <vector>

namespace heddle::server {

class Keys {
 public:
  explicit Keys(const std::vector<std::string>& keys);  // an Error for an empty one; none: everybody may

  // `authorization`: that header of a request, "Bearer KEY"; null: it has none.
  bool allow(const std::string* authorization) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  static Digest digest(std::string_view key);

  std::vector<Digest> digests_;
};

}  // namespace heddle::server
