#include "store/digest.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <system_error>
#include <vector>

#include "base/error.h"

namespace heddle::store {

std::string digest_of(const std::filesystem::path& path, Digest::Kind kind,
                      const std::function<void(uint64_t)>& on_read) {
  struct File {
    int number;
    ~File() {
      if (number >= 0) ::close(number);
    }
  } file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  const auto refuse = [&] {
    throw Error("{}: cannot be read: {}", path.string(), std::generic_category().message(errno));
  };
  struct stat about {};
  if (file.number < 0 || ::fstat(file.number, &about) != 0) refuse();
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  const EVP_MD* hash = kind == Digest::Kind::sha256 ? EVP_sha256() : EVP_sha1();
  if (!context || EVP_DigestInit_ex(context.get(), hash, nullptr) != 1)
    throw Error("{}: OpenSSL does not compute this hash here", path.string());
  const std::string header = fmt::format("blob {}", about.st_size);
  if (kind == Digest::Kind::git_sha1) EVP_DigestUpdate(context.get(), header.c_str(), header.size() + 1);
  std::vector<uint8_t> piece(1 << 20);
  for (uint64_t read = 0;;) {
    const ssize_t size = ::read(file.number, piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) refuse();
    if (size == 0) break;
    EVP_DigestUpdate(context.get(), piece.data(), size_t(size));
    if (on_read) on_read(read += uint64_t(size));
  }
  uint8_t bytes[EVP_MAX_MD_SIZE];
  unsigned count = 0;
  EVP_DigestFinal_ex(context.get(), bytes, &count);
  std::string hex;
  for (unsigned i = 0; i < count; ++i) hex += fmt::format("{:02x}", bytes[i]);
  return hex;
}

}  // namespace heddle::store
