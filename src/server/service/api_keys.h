// API keys, compared in a time that reveals nothing about them.
#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::server {

class ApiKeys {
 public:
  explicit ApiKeys(const std::vector<std::string>& keys);  // empty: no authentication. Throws an Error for an empty key

  // `authorization`: that header of a request, "Bearer KEY"; null: absent.
  bool allow(const std::string* authorization) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  static Digest digest(std::string_view key);

  std::vector<Digest> digests_;
};

}  // namespace heddle::server
