// Pulling from a hub of the tests' own: what is chosen, how it comes, and every way in which a server fails.
#include "store/pull.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "store/find.h"
#include "store/part_file.h"
#include "tests/store/store_folder.h"
#include "tests/store/test_hub.h"
#include "tests/support/refused.h"

namespace heddle::store {
namespace {

using test::contents;
using test::TestHub;
using test::TestServer;

std::string some_bytes(size_t count, uint32_t seed = 1) {
  std::string bytes(count, 0);
  for (char& c : bytes) c = char((seed = seed * 1664525 + 1013904223) >> 24);
  return bytes;
}

class Pull : public testing::Test {
 protected:
  Pull() {
    options.store = store.path();
    options.remotes.hub = hub.server.address();
    options.remotes.registry = hub.server.address();
    options.download.retries.first_wait = 0.01;
    options.download.range_bytes = 10'000;
    options.download.record_bytes = 1'000;
  }
  bool pull_it(const std::string& name) { return pull(plan_pull(read_remote_name(name), options), options); }
  std::filesystem::path at(const std::string& path) const { return store.path() / path; }
  size_t parts_left() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(store.path()))
      count += entry.path().string().find(".part") != std::string::npos;
    return count;
  }
  size_t requests_for(const std::string& part) const {
    size_t count = 0;
    for (const TestServer::Request& request : hub.server.requests())
      count += request.path.find(part) != std::string::npos;
    return count;
  }

  TestHub hub;
  test::Folder store;
  PullOptions options;
};

TEST_F(Pull, TakesTheUsualTypeOfARepository) {
  hub.repositories["org/repo"] = {{"README.md", "text"},
                                  {"m-BF16.gguf", some_bytes(300)},
                                  {"m-Q4_K_M.gguf", some_bytes(123'457, 7)},
                                  {"m-Q8_0.gguf", some_bytes(200)},
                                  {"mmproj-F16.gguf", some_bytes(100)}};
  const PullPlan plan = plan_pull(read_remote_name("org/repo"), options);
  EXPECT_EQ(plan.name.text(), "org/repo:Q4_K_M");
  EXPECT_EQ(plan.bytes, 123'457u);
  EXPECT_EQ(plan.opens, at("hub/org/repo/m-Q4_K_M.gguf"));
  EXPECT_TRUE(pull(plan, options));
  EXPECT_EQ(contents(plan.opens), some_bytes(123'457, 7));
  EXPECT_EQ(parts_left(), 0u);
  const auto found = find_models({{StoreKind::own, store.path()}});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].name, "org/repo:Q4_K_M");
  // a second time nothing is downloaded
  const size_t before = requests_for("resolve");
  EXPECT_GE(before, 13u);  // ranges of 10 000
  EXPECT_FALSE(pull_it("org/repo:q4_k_m"));
  EXPECT_EQ(requests_for("resolve"), before);
  // another type joins it
  EXPECT_TRUE(pull_it("org/repo:Q8_0"));
  EXPECT_EQ(find_models({{StoreKind::own, store.path()}}).size(), 2u);
}

TEST_F(Pull, OtherTypesWhereTheUsualOneIsMissing) {
  hub.repositories["a/eight"] = {{"m-F16.gguf", "1"}, {"m-Q8_0.gguf", "12"}};
  hub.repositories["a/first"] = {{"m-IQ2_XS.gguf", "123"}, {"m-Q6_K.gguf", "1234"}};
  hub.repositories["a/ud"] = {{"m-UD-Q4_K_XL.gguf", "12345"}, {"m-Q4_K_XL.gguf", "123456"}};
  hub.repositories["a/two"] = {{"a-Q4_0.gguf", "1"}, {"b-Q4_0.gguf", "2"}};
  hub.repositories["a/none"] = {{"README.md", "1"}};
  hub.repositories["a/half"] = {{"m-Q4_0-00001-of-00002.gguf", "1"}};
  const auto chosen = [&](const char* name) { return plan_pull(read_remote_name(name), options).files.at(0).path; };
  EXPECT_EQ(chosen("a/eight"), "m-Q8_0.gguf");
  EXPECT_EQ(chosen("a/first"), "m-IQ2_XS.gguf");
  EXPECT_EQ(chosen("a/ud:Q4_K_XL"), "m-Q4_K_XL.gguf");
  EXPECT_EQ(chosen("a/ud:UD-Q4_K_XL"), "m-UD-Q4_K_XL.gguf");
  EXPECT_EQ(chosen("a/two:b-Q4_0"), "b-Q4_0.gguf");
  EXPECT_REFUSED(chosen("a/two:Q4_0"), "a/two: expected one model of the type Q4_0, found 2: a-Q4_0, b-Q4_0");
  EXPECT_REFUSED(chosen("a/eight:Q4_K_M"), "a/eight: expected the type Q4_K_M in it, found F16, Q8_0");
  EXPECT_REFUSED(chosen("a/none"), "a/none: expected GGUF files, or safetensors with a config.json, found neither");
  EXPECT_REFUSED(chosen("a/none:Q4_0"), "expected GGUF files of which one has the type Q4_0, found none");
  EXPECT_REFUSED(chosen("a/half"), "expected all files of a split model, found 1");
}

TEST_F(Pull, SplitFilesAndFoldersOfSafetensors) {
  hub.repositories["big/split"] = {{"Q4_K_M/m-Q4_K_M-00001-of-00003.gguf", some_bytes(25'000, 1)},
                                   {"Q4_K_M/m-Q4_K_M-00002-of-00003.gguf", some_bytes(10'000, 2)},
                                   {"Q4_K_M/m-Q4_K_M-00003-of-00003.gguf", some_bytes(1, 3)}};
  EXPECT_TRUE(pull_it("big/split"));
  EXPECT_EQ(contents(at("hub/big/split/Q4_K_M/m-Q4_K_M-00002-of-00003.gguf")), some_bytes(10'000, 2));
  const std::map<std::string, std::string> files{
      {"config.json", R"({"architectures": []})"},
      {"model-00001-of-00002.safetensors", some_bytes(11'000)},
      {"model-00002-of-00002.safetensors", some_bytes(12'000)},
      {"model.safetensors.index.json", R"({"weight_map": {"a": "model-00001-of-00002.safetensors"}})"},
      {"tokenizer.json", "{}"},
      {"tokenizer_config.json", "{}"},
      {"chat_template.jinja", "{{ x }}"},
      {"1_Pooling/config.json", "{ }"}};
  hub.repositories["org/folder"] = files;
  hub.repositories["org/folder"].merge(std::map<std::string, std::string>{{"pytorch_model.bin", "no"},
                                                                          {"onnx/model.onnx", "no"},
                                                                          {".gitattributes", "no"},
                                                                          {"original/consolidated.safetensors", "no"},
                                                                          {"README.md", "no"}});
  EXPECT_TRUE(pull_it("org/folder"));
  for (const auto& [path, bytes] : files) EXPECT_EQ(contents(at("hub/org/folder/" + path)), bytes) << path;
  for (const char* path : {"pytorch_model.bin", "README.md", "onnx", "original", ".gitattributes"})
    EXPECT_FALSE(std::filesystem::exists(at("hub/org/folder") / path)) << path;
  const auto found = find_models({{StoreKind::own, store.path()}});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].name, "big/split:Q4_K_M");
  EXPECT_EQ(found[0].files.size(), 3u);
  EXPECT_EQ(found[1].name, "org/folder");
  EXPECT_EQ(found[1].path, at("hub/org/folder"));
  EXPECT_FALSE(pull_it("org/folder"));
}

TEST_F(Pull, AChangedFileReplacesTheOldOne) {
  hub.repositories["org/repo"] = {{"m-Q8_0.gguf", "first"}};
  EXPECT_TRUE(pull_it("org/repo"));
  hub.repositories["org/repo"] = {{"m-Q8_0.gguf", "other"}};  // of the same size
  EXPECT_TRUE(pull_it("org/repo"));
  EXPECT_EQ(contents(at("hub/org/repo/m-Q8_0.gguf")), "other");
  std::filesystem::remove(at("hub/org/repo/m-Q8_0.gguf"));
  EXPECT_TRUE(pull_it("org/repo"));
}

TEST_F(Pull, EmptyFilesAndOddSizes) {
  std::map<std::string, std::string>& files = hub.repositories["org/folder"];
  files = {{"config.json", ""},
           {"model.safetensors", some_bytes(10'000)},
           {"tokenizer.json", some_bytes(10'001)},
           {"x.json", "1"}};
  EXPECT_TRUE(pull_it("org/folder"));
  for (const auto& [path, bytes] : files) EXPECT_EQ(contents(at("hub/org/folder/" + path)), bytes) << path;
}

TEST_F(Pull, FromARegistry) {
  hub.add_model("library/qwen3/0.6b", some_bytes(54'321));
  hub.add_model("me/tiny/latest", "tiny");
  EXPECT_TRUE(pull_it("qwen3:0.6b"));
  EXPECT_EQ(contents(at("registry/registry.ollama.ai/library/qwen3/0.6b/model.gguf")), some_bytes(54'321));
  EXPECT_TRUE(pull_it(hub.server.host() + "/me/tiny"));
  const auto found = find_models({{StoreKind::own, store.path()}});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].name, hub.server.host() + "/me/tiny:latest");
  EXPECT_EQ(found[1].name, "qwen3:0.6b");
  EXPECT_REFUSED(pull_it("qwen3:7b"), "qwen3:7b: there is no such model at registry.ollama.ai (404)");
  const std::string other = std::string(64, 'a');
  hub.add_model("library/tuned/latest", "x",
                R"(,{"mediaType":"application/vnd.ollama.image.adapter","digest":"sha256:)" + other + R"(","size":1})");
  EXPECT_REFUSED(pull_it("tuned"), "tuned:latest: it has an adapter");
  hub.manifests["library/none/latest"] = R"({"layers":[]})";
  EXPECT_REFUSED(pull_it("none"), "none:latest: it has no GGUF file");
  hub.manifests["library/evil/latest"] =
      R"({"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:../../../../etc/passwd","size":1}]})";
  EXPECT_REFUSED(pull_it("evil"), "evil:latest", "digest: expected sha256: and 64 hexadecimal digits");
  hub.instead["/private/"] = {TestServer::Reply{.status = 401, .body = ""}};
  EXPECT_REFUSED(pull_it("private"), "private:latest", "does not let everyone read it (401)");
}

TEST_F(Pull, TheTokenGoesToTheHubAndNoFurther) {
  TestHub storage;
  hub.repositories["org/repo"] = storage.repositories["org/repo"] = {{"m-Q8_0.gguf", some_bytes(30'000)}};
  hub.redirect = storage.server.address();
  hub.token = options.remotes.hub_token = "hf_secret";
  EXPECT_TRUE(pull_it("org/repo"));
  EXPECT_EQ(contents(at("hub/org/repo/m-Q8_0.gguf")), some_bytes(30'000));
  EXPECT_GE(storage.server.requests().size(), 3u);
  for (const auto& request : storage.server.requests()) EXPECT_EQ(request.header("authorization"), "");
  for (const auto& request : hub.server.requests()) EXPECT_EQ(request.header("authorization"), "Bearer hf_secret");
}

TEST_F(Pull, RedirectsThatLeadAstray) {
  hub.repositories["org/repo"] = {{"m-Q8_0.gguf", "12345"}};
  const auto to = [](const std::string& place) {
    return TestServer::Reply{.status = 302, .body = "", .headers = {"Location: " + place}};
  };
  hub.instead["resolve"] = {to("file:///etc/passwd")};
  EXPECT_REFUSED(pull_it("org/repo"),
                 "expected an address that begins with http:// or https://, found \"file:///etc/passwd");
  hub.instead["resolve"] = {to("ftp://127.0.0.1/x")};
  EXPECT_REFUSED(pull_it("org/repo"), "expected an address that begins with http:// or https://");
  hub.instead["resolve"] = {};
  hub.instead["loop"] = {};
  for (int i = 0; i < 20; ++i) hub.instead["resolve"].push_back(to("/resolve/loop"));
  EXPECT_REFUSED(pull_it("org/repo"), "expected up to 10 redirects, found more");
  hub.instead.clear();
  hub.instead["resolve"] = {to("/blob-store/org/repo/m-Q8_0.gguf")};  // a relative one is fine
  EXPECT_TRUE(pull_it("org/repo"));
}

TEST_F(Pull, SaysWhatARefusalMeans) {
  hub.repositories["org/repo"] = {{"m-Q8_0.gguf", "12345"}};
  const auto refuses = [&](int status) { hub.instead["/api/"] = {TestServer::Reply{.status = status, .body = "{}"}}; };
  refuses(401);
  EXPECT_REFUSED(pull_it("org/repo"), "org/repo: ", "does not show it (401)", "needs a token in HF_TOKEN");
  refuses(403);
  EXPECT_REFUSED(pull_it("org/repo"), "org/repo: ", "(403): its terms have to be accepted at", "/org/repo");
  refuses(404);
  EXPECT_REFUSED(pull_it("org/repo"), "org/repo: there is no such model at ", "(404)");
  options.remotes.hub_token = "wrong";
  refuses(401);
  EXPECT_REFUSED(pull_it("org/repo"), "does not accept the token (401): HF_TOKEN is wrong or expired");
  // the list of a gated repository is for all, its files are not
  hub.instead["resolve"] = {TestServer::Reply{.status = 403, .body = ""}};
  EXPECT_REFUSED(pull_it("org/repo"), "org/repo: the token may not read it (403): its terms have to be accepted at");
  options.remotes.hub_token = "";
  hub.instead["resolve"] = {TestServer::Reply{.status = 401, .body = ""}};
  EXPECT_REFUSED(pull_it("org/repo"), "org/repo: ", "needs a token in HF_TOKEN");
  options.remotes.offline = true;
  EXPECT_REFUSED(pull_it("org/repo"), "HF_HUB_OFFLINE is set");
}

TEST_F(Pull, TriesAgainWhatMayPass) {
  hub.repositories["org/repo"] = {{"m-Q8_0.gguf", some_bytes(5'000)}};
  std::vector<std::string> notes;
  options.download.retries.on_retry = [&](const std::string& line) { notes.push_back(line); };
  const TestServer::Reply busy{.status = 429, .body = "", .headers = {"Retry-After: 0"}},
      broken{.status = 500, .body = ""}, unavailable{.status = 503, .body = ""};
  hub.instead["/api/"] = {busy, broken};
  hub.instead["resolve"] = {broken, unavailable, busy};
  EXPECT_TRUE(pull_it("org/repo"));
  EXPECT_EQ(notes.size(), 5u);
  test::expect_says(notes[0], {"429 (too many requests); trying again in 0.0 s"});
  // what does not pass
  hub.repositories["org/other"] = {{"m-Q8_0.gguf", "1"}};
  hub.instead["resolve"] = std::deque<std::optional<TestServer::Reply>>(20, broken);
  options.download.retries.first_wait = 0.001;
  EXPECT_REFUSED(pull_it("org/other"), "500 (an error of the server) (6 attempts)");
  EXPECT_EQ(hub.instead["resolve"].size(), 14u);
  hub.instead["resolve"] = {TestServer::Reply{.status = 429, .body = "", .headers = {"Retry-After: 3600"}}};
  EXPECT_REFUSED(pull_it("org/other"), "429 (too many requests), and asks to wait 3600 s; try again then");
}

TEST_F(Pull, WaitsAsLongAsTheServerAsks) {
  hub.repositories["org/repo"] = {{"m-Q8_0.gguf", "1"}};
  hub.instead["/api/"] = {TestServer::Reply{.status = 429, .body = "", .headers = {"Retry-After: 1"}}};
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(pull_it("org/repo"));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
}

TEST_F(Pull, BrokenConnectionsGoOnWhereTheyBroke) {
  const std::string bytes = some_bytes(40'000);
  hub.repositories["org/repo"] = {{"m-Q8_0.gguf", bytes}};
  std::atomic<int> served = 0;
  hub.change = [&](TestServer::Reply& reply) {
    if (served++ % 2 == 0) reply.cut_after = 3'000;  // every other response
  };
  EXPECT_TRUE(pull_it("org/repo"));
  EXPECT_EQ(contents(at("hub/org/repo/m-Q8_0.gguf")), bytes);
  EXPECT_LT(hub.server.sent(), 60'000u);  // nothing came twice, but for the list
}

TEST_F(Pull, ServersWithoutRanges) {
  const std::string bytes = some_bytes(40'000);
  hub.repositories["org/repo"] = {{"m-Q8_0.gguf", bytes}};
  std::atomic<int> served = 0;
  hub.change = [&](TestServer::Reply& reply) {
    reply.ranges = false;
    if (served++ == 5) reply.cut_after = 20'000;
  };
  EXPECT_TRUE(pull_it("org/repo"));
  EXPECT_EQ(contents(at("hub/org/repo/m-Q8_0.gguf")), bytes);
  // one that always breaks is given up
  hub.repositories["org/never"] = {{"m-Q8_0.gguf", bytes}};
  hub.change = [&](TestServer::Reply& reply) {
    reply.ranges = false;
    reply.cut_after = 20'000;
  };
  options.download.retries.first_wait = 0.001;
  EXPECT_REFUSED(pull_it("org/never"), "(6 attempts)");
}

TEST_F(Pull, AnInterruptedPullGoesOn) {
  const std::string bytes = some_bytes(60'000);
  hub.repositories["org/repo"] = {{"m-Q8_0.gguf", bytes}};
  hub.change = [](TestServer::Reply& reply) { reply.delay = 0.02; };
  std::atomic<bool> stop = false;
  options.download.http.stop = options.download.retries.stop = &stop;
  options.progress_seconds = 0.01;
  options.on_progress = [&](const PullProgress& now) {
    EXPECT_EQ(now.total, 60'000u);
    if (now.done >= 20'000) stop = true;
  };
  EXPECT_REFUSED(pull_it("org/repo"), "interrupted");
  EXPECT_EQ(parts_left(), 2u);
  EXPECT_TRUE(find_models({{StoreKind::own, store.path()}}).empty());  // nothing that looks like a model
  stop = false;
  const PullPlan plan = plan_pull(read_remote_name("org/repo"), options);
  const uint64_t present = PartFile::present(plan.opens, 60'000, plan.files[0].digest.text());
  EXPECT_GE(present, 15'000u);
  EXPECT_LT(present, 60'000u);
  hub.change = [](TestServer::Reply&) {};
  options.on_progress = {};
  const size_t before = hub.server.requests().size();
  EXPECT_TRUE(pull(plan, options));
  EXPECT_EQ(contents(plan.opens), bytes);
  uint64_t asked = 0;
  const std::vector<TestServer::Request> requests = hub.server.requests();
  for (size_t i = before; i < requests.size(); ++i) {
    const std::string range = requests[i].header("range");  // bytes=10-19
    ASSERT_FALSE(range.empty());
    asked += std::stoull(range.substr(range.find('-') + 1)) + 1 - std::stoull(range.substr(6));
  }
  EXPECT_EQ(asked, 60'000 - present);  // what was there is not asked for again
}

TEST_F(Pull, WrongHashesAreRefusedAndRemoved) {
  hub.repositories["org/repo"] = {{"m-Q8_0.gguf", some_bytes(30'000)}};
  hub.change = [](TestServer::Reply& reply) { reply.body[12'345] ^= 1; };
  EXPECT_REFUSED(pull_it("org/repo"), "m-Q8_0.gguf: expected the SHA-256 hash " + test::hash_of(some_bytes(30'000)),
                 "found ", "what was downloaded has been removed");
  EXPECT_EQ(parts_left(), 0u);
  EXPECT_TRUE(find_models({{StoreKind::own, store.path()}}).empty());
  hub.repositories["org/folder"] = {{"config.json", "{}"}, {"model.safetensors", "1"}};
  hub.change = [](TestServer::Reply& reply) {
    if (reply.body == "{}") reply.body = "[]";
  };
  EXPECT_REFUSED(pull_it("org/folder"), "config.json: expected the git hash " + test::git_hash_of("{}"));
  EXPECT_TRUE(find_models({{StoreKind::own, store.path()}}).empty());
  EXPECT_FALSE(std::filesystem::exists(at("hub/org/folder/model.safetensors")));  // all files, or none
}

TEST_F(Pull, LiesAboutLengths) {
  const std::string small = some_bytes(5'000), large = some_bytes(30'000);
  hub.repositories["org/small"] = {{"m-Q8_0.gguf", small}};
  hub.repositories["org/large"] = {{"m-Q8_0.gguf", large}};
  options.download.retries.first_wait = 0.001;
  hub.change = [](TestServer::Reply& reply) { reply.body += "more"; };
  EXPECT_REFUSED(pull_it("org/small"), "m-Q8_0.gguf: expected 5000 bytes, the server sends 5004");
  EXPECT_REFUSED(pull_it("org/large"), "expected bytes", "of 30000, the server sends bytes", "/30004");
  hub.change = [](TestServer::Reply& reply) { reply.body.resize(4'000); };
  EXPECT_REFUSED(pull_it("org/small"), "expected 5000 bytes, the server sends 4000");
  hub.change = [](TestServer::Reply& reply) {  // it promises more than it sends
    reply.claimed_length = reply.body.size();
    reply.cut_after = 10;
    reply.ranges = false;
  };
  EXPECT_REFUSED(pull_it("org/small"), "(6 attempts)");
  hub.change = [](TestServer::Reply& reply) { reply.content_range = "bytes 5-10/30000"; };
  EXPECT_REFUSED(pull_it("org/large"), "the server sends bytes 5-10/30000");
  hub.change = [](TestServer::Reply& reply) { reply.content_range = "nonsense"; };
  EXPECT_REFUSED(pull_it("org/large"), "the server sends nonsense");
  hub.change = [](TestServer::Reply& reply) {  // more bytes than the range that was asked for
    reply.headers.push_back("Transfer-Encoding: chunked");
    reply.status = 206;
    reply.headers.push_back("Content-Range: bytes 0-9999/30000");
    reply.body = "fffff\r\n" + std::string(0xfffff, 'x') + "\r\n0\r\n\r\n";
    reply.ranges = false;
  };
  options.download.connections = 1;
  EXPECT_REFUSED(pull_it("org/large"), "expected 30000 bytes, the server sends more");
  EXPECT_TRUE(find_models({{StoreKind::own, store.path()}}).empty());
}

TEST_F(Pull, ASecondPullWaitsForTheFirst) {
  const std::string bytes = some_bytes(30'000);
  hub.repositories["org/repo"] = {{"m-Q8_0.gguf", bytes}};
  hub.change = [](TestServer::Reply& reply) { reply.delay = 0.01; };
  const PullPlan plan = plan_pull(read_remote_name("org/repo"), options);
  bool first = false;
  std::thread other([&] { first = pull(plan, options); });
  while (hub.server.sent() < 500) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  pid_t owner = 0;
  PullOptions second = options;
  second.on_wait = [&](pid_t process) { owner = process; };
  EXPECT_FALSE(pull(plan, second));  // it was there when its turn came
  other.join();
  EXPECT_TRUE(first);
  EXPECT_EQ(owner, ::getpid());
  EXPECT_EQ(contents(plan.opens), bytes);
  EXPECT_LT(hub.server.sent(), 35'000u);
}

TEST_F(Pull, DiskSpaceIsLookedAtFirst) {
  const PullPlan plan{
      .name = read_remote_name("org/repo:Q8_0"),
      .folder = at("hub/org/repo"),
      .files = {{.path = "m.gguf", .url = hub.server.address() + "/m", .bytes = uint64_t(1) << 43, .digest = {}}},
      .opens = {}};
  EXPECT_REFUSED(pull(plan, options), "hub/org/repo: expected 8796.09 GB of free disk space for org/repo:Q8_0, found ");
  EXPECT_TRUE(hub.server.requests().empty());
}

TEST_F(Pull, HostileLists) {
  const auto answers = [&](const std::string& json) {
    hub.instead["/api/"] = {TestServer::Reply{.body = json}};
    return test::refusal([&] { pull_it("org/repo"); });
  };
  const std::string sha = std::string(R"("sha":")") + TestHub::commit + R"(",)", hash = std::string(64, 'a');
  const auto with_path = [&](const std::string& path) {
    return fmt::format(R"({{{}"siblings":[{{"rfilename":"{}","size":1,"lfs":{{"sha256":"{}"}}}}]}})", sha, path, hash);
  };
  for (const char* path : {"../m-Q8_0.gguf", "/etc/m.gguf", "a/../../m.gguf", "a\\\\..\\\\m.gguf", "a//m.gguf",
                           "m\\u0000.gguf", "m\\n.gguf"})
    test::expect_says(answers(with_path(path)), {"org/repo: rfilename: expected a path below the repository, found"});
  test::expect_says(answers("{"), {"org/repo"});
  test::expect_says(answers("[]"), {"expected an object with an array of siblings"});
  test::expect_says(answers("{" + sha + R"("siblings":[3]})"), {"expected objects with a string rfilename, found 3"});
  test::expect_says(answers(R"({"sha":"../..","siblings":[]})"), {"sha: expected 40 hexadecimal digits"});
  test::expect_says(answers(R"({"siblings":[]})"), {"expected the key sha"});
  test::expect_says(answers("{" + sha + R"("siblings":[{"rfilename":"m.gguf","size":-1}]})"),
                    {"size: expected a number of bytes"});
  test::expect_says(answers("{" + sha + R"("siblings":[{"rfilename":"m.gguf","size":99999999999999999999}]})"),
                    {"size: expected"});
  test::expect_says(answers("{" + sha + R"("siblings":[{"rfilename":"m.gguf","size":1,"lfs":{"sha256":"../x"}}]})"),
                    {"sha256: expected 64"});
  test::expect_says(answers("{" + sha + R"("siblings":[{"rfilename":"m.gguf","size":1}]})"),
                    {"m.gguf: expected a hash, found none"});
  test::expect_says(answers("{" + sha + R"("siblings":[{"rfilename":"a"},{"rfilename":"a"}]})"),
                    {"expected every path once"});
  test::expect_says(answers(std::string(33 << 20, ' ')), {"expected up to 33554432 bytes, found more"});
}

TEST_F(Pull, AProxyIsUsed) {
  hub.repositories["org/repo"] = {{"m-Q8_0.gguf", some_bytes(5'000)}};
  // a proxy is asked for the whole address
  TestServer proxy([](const TestServer::Request& request) {
    const std::string prefix = "http://hub.invalid";
    if (!request.path.starts_with(prefix)) return TestServer::Reply{.status = 400, .body = ""};
    if (request.path.find("/api/") != std::string::npos)
      return TestServer::Reply{
          .body = fmt::format(
              R"({{"sha":"{}","siblings":[{{"rfilename":"m-Q8_0.gguf","size":5000,"lfs":{{"sha256":"{}"}}}}]}})",
              TestHub::commit, test::hash_of(some_bytes(5'000)))};
    return TestServer::Reply{.body = some_bytes(5'000)};
  });
  ::setenv("http_proxy", proxy.address().c_str(), 1);
  options.remotes.hub = "http://hub.invalid";
  EXPECT_TRUE(pull_it("org/repo"));
  ::unsetenv("http_proxy");
  EXPECT_EQ(proxy.requests().size(), 2u);
  EXPECT_EQ(contents(at("hub/org/repo/m-Q8_0.gguf")), some_bytes(5'000));
}

TEST_F(Pull, AServerThatIsNotThere) {
  options.remotes.hub = "http://127.0.0.1:1";
  options.download.retries.first_wait = 0.001;
  EXPECT_REFUSED(pull_it("org/repo"), "http://127.0.0.1:1/api/models/org/repo/revision/main: ", "(6 attempts)");
}

TEST_F(Pull, AServerThatSaysNothingIsGivenUp) {
  hub.repositories["org/repo"] = {{"m-Q8_0.gguf", some_bytes(5'000)}};
  hub.change = [](TestServer::Reply& reply) { reply.delay = 2; };
  options.download.http.stall_seconds = 1;
  options.download.retries.attempts = 1;
  EXPECT_REFUSED(pull_it("org/repo"), "resolve", "no byte came for 1 s");
}

}  // namespace
}  // namespace heddle::store
