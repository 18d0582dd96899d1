// The cache on disk: only whole entries for exactly this key come out of it, whatever happened to the folder.
#include "cuda/cubin_cache.h"

#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <random>
#include <thread>

#include "tests/cuda/fake_test.h"

namespace heddle::cuda {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> cubin(size_t bytes, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> data(bytes);
  for (auto& b : data) b = std::byte(random());
  return data;
}
CubinKey key(const std::string& text) { return CubinKey::of(text, "sm_90a", "sm_90", "13.0"); }

class CacheOfCubins : public testing::Test {
 protected:
  fs::path file(const CubinKey& k) const { return folder_.path() / (k.hash.hex() + ".cubin"); }
  std::string contents(const fs::path& path) const {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  size_t files() const { return size_t(std::distance(fs::directory_iterator(folder_.path()), {})); }
  Folder folder_;
};

TEST_F(CacheOfCubins, GivesBackWhatWasPut) {
  CubinCache cache(folder_.path() / "made" / "when" / "needed");
  EXPECT_FALSE(cache.get(key("a")));
  cache.put(key("a"), cubin(5000, 1));
  cache.put(key("b"), cubin(1, 2));
  EXPECT_EQ(cache.get(key("a")), cubin(5000, 1));
  EXPECT_EQ(cache.get(key("b")), cubin(1, 2));
  cache.put(key("a"), cubin(10, 3));
  EXPECT_EQ(CubinCache(cache.folder()).get(key("a")), cubin(10, 3));  // as another start sees it
  cache.remove(key("a"));
  EXPECT_FALSE(cache.get(key("a")));
  const CubinCache::Counts n = cache.counts();
  EXPECT_EQ(n.hits, 2u);
  EXPECT_EQ(n.misses, 2u);
  EXPECT_EQ(n.rejected, 0u);
  EXPECT_EQ(n.written, 3u);
}

TEST_F(CacheOfCubins, TheKeyKeepsItsPartsApart) {
  std::set<std::string> names;
  for (auto& k :
       {CubinKey::of("ab", "c", "d", "e"), CubinKey::of("a", "bc", "d", "e"), CubinKey::of("ab", "", "cd", "e"),
        CubinKey::of("ab", "c", "", "de"), CubinKey::of("ab", "c", "de", ""), CubinKey::of("", "", "", "")})
    names.insert(k.hash.hex());
  EXPECT_EQ(names.size(), 6u);
}

// Every byte of the file matters: any one changed, and the entry is not used, and is then written again.
TEST_F(CacheOfCubins, AnyChangedByteIsNoticed) {
  CubinCache cache(folder_.path());
  cache.put(key("a"), cubin(40, 1));
  const std::string good = contents(file(key("a")));
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = char(bad[i] ^ 0x20);
    std::ofstream(file(key("a")), std::ios::binary) << bad;
    EXPECT_FALSE(cache.get(key("a"))) << "byte " << i;
  }
  EXPECT_EQ(cache.counts().rejected, good.size());
  cache.put(key("a"), cubin(40, 1));
  EXPECT_TRUE(cache.get(key("a")));
}

TEST_F(CacheOfCubins, CutOrLengthenedFilesAreNoticed) {
  CubinCache cache(folder_.path());
  cache.put(key("a"), cubin(40, 1));
  const std::string good = contents(file(key("a")));
  for (size_t length = 0; length < good.size(); ++length) {
    std::ofstream(file(key("a")), std::ios::binary) << good.substr(0, length);
    EXPECT_FALSE(cache.get(key("a"))) << length;
  }
  std::ofstream(file(key("a")), std::ios::binary) << good << "x";
  EXPECT_FALSE(cache.get(key("a")));
  std::ofstream(file(key("a")), std::ios::binary) << good;
  EXPECT_TRUE(cache.get(key("a")));
}

TEST_F(CacheOfCubins, AnEntryUnderAnothersNameIsNotUsed) {
  CubinCache cache(folder_.path());
  cache.put(key("a"), cubin(40, 1));
  fs::copy_file(file(key("a")), file(key("b")));
  EXPECT_FALSE(cache.get(key("b")));
  EXPECT_EQ(cache.counts().rejected, 1u);
  // the same name, and still another text: the second hash differs
  CubinKey like_a = key("a");
  like_a.check ^= 1;
  EXPECT_FALSE(cache.get(like_a));
  like_a = key("a");
  ++like_a.key_bytes;
  EXPECT_FALSE(cache.get(like_a));
}

TEST_F(CacheOfCubins, ForeignThingsAreLeftAlone) {
  CubinCache cache(folder_.path(), 1000);
  std::ofstream(folder_.path() / "notes.txt") << std::string(5000, 'x');
  std::ofstream(folder_.path() / "0123456789abcdef.cubin") << std::string(5000, 'x');
  std::ofstream(folder_.path() / (std::string(31, 'a') + "X.cubin")) << std::string(5000, 'x');
  fs::create_directories(file(key("folder")) / "inside");
  EXPECT_FALSE(cache.get(key("folder")));
  cache.put(key("folder"), cubin(10, 1));  // cannot take the place of a folder
  expect_says(cache.problem(), {"cannot write", ".cubin"});
  cache.put(key("a"), cubin(10, 1));
  cache.trim();
  EXPECT_EQ(files(), 5u);
  EXPECT_TRUE(cache.get(key("a")));
}

TEST_F(CacheOfCubins, WhatWasUsedLongestAgoGoesFirst) {
  CubinCache cache(folder_.path(), 5 * (100 + 72));
  auto age = [&](const std::string& text, int seconds) {
    fs::last_write_time(file(key(text)), fs::file_time_type::clock::now() - std::chrono::seconds(seconds));
  };
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g"}) cache.put(key(name), cubin(100, 1));
  const std::map<std::string, int> ages{{"a", 70}, {"b", 100}, {"c", 50}, {"d", 90}, {"e", 20}, {"f", 80}, {"g", 30}};
  for (const auto& [name, seconds] : ages) age(name, seconds);
  EXPECT_TRUE(cache.get(key("b")));  // the oldest becomes the newest
  cache.trim();
  EXPECT_EQ(cache.counts().evicted, 2u);
  std::string left;
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g"})
    if (fs::exists(file(key(name)))) left += name;
  EXPECT_EQ(left, "abceg");
  cache.trim();
  EXPECT_EQ(cache.counts().evicted, 2u);
}

TEST_F(CacheOfCubins, WhatIsLargerThanAllOfItIsNotKept) {
  CubinCache cache(folder_.path(), 1000);
  cache.put(key("a"), cubin(1000, 1));
  EXPECT_EQ(files(), 0u);
  expect_says(cache.problem(), {"1000 bytes does not fit"});
}

TEST_F(CacheOfCubins, LeftoversOfDeadProcessesAreRemovedInTime) {
  CubinCache cache(folder_.path());
  std::ofstream(folder_.path() / ".tmp-oldone") << "x";
  std::ofstream(folder_.path() / ".tmp-newone") << "x";
  fs::last_write_time(folder_.path() / ".tmp-oldone", fs::file_time_type::clock::now() - std::chrono::hours(2));
  cache.trim();
  EXPECT_FALSE(fs::exists(folder_.path() / ".tmp-oldone"));
  EXPECT_TRUE(fs::exists(folder_.path() / ".tmp-newone"));  // another process may still be writing it
}

TEST_F(CacheOfCubins, AFolderThatCannotBeIsOnlyNoCache) {
  std::ofstream(folder_.path() / "file") << "x";
  CubinCache cache(folder_.path() / "file" / "cubin");
  cache.put(key("a"), cubin(10, 1));
  EXPECT_FALSE(cache.get(key("a")));
  cache.trim();
  expect_says(cache.problem(), {"cannot make the folder", "file/cubin"});
  EXPECT_EQ(cache.counts().written, 0u);
}

TEST_F(CacheOfCubins, AFolderThatMayNotBeWrittenStillGivesWhatItHas) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  CubinCache cache(folder_.path());
  cache.put(key("a"), cubin(10, 1));
  fs::permissions(folder_.path(), fs::perms::owner_read | fs::perms::owner_exec);
  cache.put(key("b"), cubin(10, 1));
  expect_says(cache.problem(), {"cannot write in"});
  EXPECT_TRUE(cache.get(key("a")));
  fs::permissions(folder_.path(), fs::perms::owner_all);
}

// Writers of the same entries with different contents, readers, and one that trims: every answer is one of the
// contents.
void use_hard(const fs::path& folder, uint32_t seed, int rounds, bool& wrong) {
  CubinCache cache(folder, 3000);
  std::mt19937 random(seed);
  for (int i = 0; i < rounds; ++i) {
    const CubinKey k = key(std::to_string(random() % 5));
    switch (random() % 4) {
      case 0:
        cache.put(k, cubin(500, 1000 + random() % 3));
        break;
      case 1:
        cache.trim();
        break;
      default:
        if (auto got = cache.get(k))
          wrong |= *got != cubin(500, 1000) && *got != cubin(500, 1001) && *got != cubin(500, 1002);
    }
  }
  wrong |= cache.counts().rejected != 0 || !cache.problem().empty();
}

TEST_F(CacheOfCubins, ProcessesMayShareIt) {
  std::vector<pid_t> children;
  for (uint32_t i = 0; i < 6; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      bool wrong = false;
      use_hard(folder_.path(), i, 300, wrong);
      _exit(wrong);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  for (auto& left : fs::directory_iterator(folder_.path()))
    EXPECT_EQ(left.path().extension(), ".cubin") << "left over: " << left.path();
}

TEST_F(CacheOfCubins, ThreadsMayShareIt) {
  CubinCache cache(folder_.path(), 3000);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (uint32_t i = 0; i < 6; ++i)
    threads.emplace_back([&, i] {
      std::mt19937 random(i);
      for (int n = 0; n < 100; ++n) {
        const std::string name = std::to_string(random() % 3);
        cache.put(key(name), cubin(300, random() % 2));
        if (auto got = cache.get(key(name)); got && *got != cubin(300, 0) && *got != cubin(300, 1)) ++wrong;
        if (n % 16 == 0) cache.trim();
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(cache.problem(), "");
  EXPECT_EQ(files(), 3u);
}

// --- where it is ----------------------------------------------------------------------------------------------------
class CubinCacheFolder : public testing::Test {
 protected:
  static constexpr const char* names[] = {"HEDDLE_CACHE_DIR", "XDG_CACHE_HOME", "HOME"};
  void SetUp() override {
    for (const char* name : names) {
      const char* value = getenv(name);
      before_.emplace_back(value ? std::optional<std::string>(value) : std::nullopt);
      unsetenv(name);
    }
  }
  void TearDown() override {
    for (size_t i = 0; i < 3; ++i)
      if (before_[i])
        setenv(names[i], before_[i]->c_str(), 1);
      else
        unsetenv(names[i]);
  }
  std::vector<std::optional<std::string>> before_;
};

TEST_F(CubinCacheFolder, FollowsTheEnvironment) {
  setenv("HOME", "/home/me", 1);
  EXPECT_EQ(CubinCache::from_environment().folder(), "/home/me/.cache/heddle/cubin");
  setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(CubinCache::from_environment().folder(), "/home/me/.cache/heddle/cubin");
  setenv("XDG_CACHE_HOME", "/var/cache", 1);
  EXPECT_EQ(CubinCache::from_environment().folder(), "/var/cache/heddle/cubin");
  setenv("HEDDLE_CACHE_DIR", "/tmp/heddle", 1);
  EXPECT_EQ(CubinCache::from_environment().folder(), "/tmp/heddle/cubin");
}

TEST_F(CubinCacheFolder, CanBeSwitchedOff) {
  setenv("HOME", "/home/me", 1);
  for (const char* value : {"", "off"}) {
    setenv("HEDDLE_CACHE_DIR", value, 1);
    const CubinCache cache = CubinCache::from_environment();
    EXPECT_FALSE(cache.is_on());
    expect_says(cache.problem(), {"HEDDLE_CACHE_DIR is"});
  }
}

TEST_F(CubinCacheFolder, IsOffWhereThereIsNoHome) {
  CubinCache cache = CubinCache::from_environment();
  EXPECT_FALSE(cache.is_on());
  expect_says(cache.problem(), {"HOME"});
  cache.put(key("a"), cubin(10, 1));
  EXPECT_FALSE(cache.get(key("a")));
  cache.trim();
  cache.remove(key("a"));
}

// --- hashes: known answers ------------------------------------------------------------------------------------------
std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(Hash, Murmur3KnownAnswers) {
  EXPECT_EQ(murmur3({}).hex(), "00000000000000000000000000000000");
  EXPECT_EQ(murmur3(bytes("hello")).hex(), "cbd8a7b341bd9b025b1e906a48ae1d19");
  EXPECT_EQ(murmur3(bytes("hello, world")).hex(), "342fac623a5ebc8e4cdcbc079642414d");
  EXPECT_EQ(murmur3(bytes("The quick brown fox jumps over the lazy dog.")).hex(), "cd99481f9ee902c9695da1a38987b6e7");
}

TEST(Hash, Fnv1aKnownAnswers) {
  EXPECT_EQ(fnv1a({}), 0xcbf29ce484222325u);
  EXPECT_EQ(fnv1a(bytes("a")), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(fnv1a(bytes("foobar")), 0x85944171f73967e8u);
}

TEST(Hash, EveryBitOfEveryLengthCounts) {
  std::set<std::string> murmurs;
  std::set<uint64_t> fnvs;
  size_t made = 0;
  for (size_t length = 0; length <= 40; ++length)
    for (size_t bit = 0; bit <= 8 * length; ++bit, ++made) {  // the last: no bit changed
      std::vector<std::byte> data(length);
      if (bit < 8 * length) data[bit / 8] = std::byte(1 << bit % 8);
      murmurs.insert(murmur3(data, 1).hex());
      fnvs.insert(fnv1a(data));
    }
  EXPECT_EQ(murmurs.size(), made);
  EXPECT_EQ(fnvs.size(), made);
}

}  // namespace
}  // namespace heddle::cuda
