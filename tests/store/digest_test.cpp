#include "store/digest.h"

#include <gtest/gtest.h>

#include "tests/support/folder.h"
#include "tests/support/refused.h"

namespace heddle::store {
namespace {

// Known answers: FIPS 180-2's, and what `git hash-object` says.
TEST(Digests, OfFiles) {
  const test::Folder folder;
  EXPECT_EQ(digest_of(folder.write("a", "abc"), Digest::Kind::sha256),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest_of(folder.write("e", ""), Digest::Kind::sha256),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  uint64_t read = 0;
  EXPECT_EQ(digest_of(folder.write("m", std::string(1'000'000, 'a')), Digest::Kind::sha256,
                      [&](uint64_t now) { read = now; }),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(read, 1'000'000u);
  EXPECT_EQ(digest_of(folder.write("h", "hello\n"), Digest::Kind::git_sha1),
            "ce013625030ba8dba906f756967f9e9ca394464a");
  EXPECT_EQ(digest_of(folder.file("e"), Digest::Kind::git_sha1), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
  EXPECT_REFUSED(digest_of(folder.file("no"), Digest::Kind::sha256), "no: cannot be read: No such file");
}

}  // namespace
}  // namespace heddle::store
