// What is said of the model, and what is not done with models.
#include <gtest/gtest.h>

#include "tests/server/api/ollama/ollama_fixture.h"
#include "tests/server/service/service_fixture.h"
#include "tests/support/refused.h"

namespace heddle::server {
namespace {

using test::Recorded;
using test::ServiceFixture;

struct KnownModel : ServiceFixture {
  explicit KnownModel(std::string chat_template = test::counting_template) {
    serve();
    Served served{.card = {.name = "count/er",
                           .chat_template = std::move(chat_template),
                           .context = 200,
                           .vocabulary = test::counting_vocabulary,
                           .width = test::counting_width},
                  .tokenizer = tokenizer,
                  .engine = *thread};
    served.card.facts = {.architecture = "counter",
                         .format = "gguf",
                         .quantization = "Q4_K_M",
                         .license = "mit",
                         .parameters = 8'190'735'360,
                         .layers = 36,
                         .file_bytes = 5'027'783'488,
                         .memory = 6'000'000'000,
                         .gpu_memory = 4'000'000'000,
                         .modified = 1'700'000'000};
    service->serve(std::move(served));
  }
};

const char* const details = R"({"parent_model":"","format":"gguf","family":"counter","families":["counter"],
  "parameter_size":"8.2B","quantization_level":"Q4_K_M","context_length":200,"embedding_length":8})";

bool is_digest(const Json& value) {
  const std::string text = value;
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

TEST(OllamaModels, Tags) {
  KnownModel service;
  Json model = service.get("/api/tags").json().at("models").at(0);
  EXPECT_TRUE(is_digest(model["digest"]));
  const Json digest = model["digest"];
  model.erase("digest");
  EXPECT_EQ(model, (Json{{"name", "count/er:latest"},
                         {"model", "count/er:latest"},
                         {"modified_at", "2023-11-14T22:13:20.000Z"},
                         {"size", 5'027'783'488},
                         {"details", Json::parse(details)},
                         {"capabilities", {"completion", "embedding"}}}));
  EXPECT_EQ(service.get("/api/ps").json()["models"][0]["digest"], digest);
}

TEST(OllamaModels, Show) {
  KnownModel service;
  const Json page = service.post("/api/show", R"({"model":"count/er"})").json();
  EXPECT_EQ(page, (Json{{"license", "mit"},
                        {"modelfile", "FROM count/er"},
                        {"parameters",
                         "num_ctx                        200\ntemperature                    0.8\n"
                         "top_k                          40\ntop_p                          0.9"},
                        {"template", test::counting_template},
                        {"details", Json::parse(details)},
                        {"model_info",
                         {{"general.architecture", "counter"},
                          {"general.basename", "count/er"},
                          {"general.parameter_count", 8'190'735'360},
                          {"counter.context_length", 200},
                          {"counter.embedding_length", 8},
                          {"counter.block_count", 36},
                          {"counter.vocab_size", 100}}},
                        {"capabilities", {"completion", "embedding"}},
                        {"modified_at", "2023-11-14T22:13:20.000Z"}}));
  EXPECT_EQ(service.post("/api/show", R"({"name":"count/er:latest"})").json(), page);
}

TEST(OllamaModels, CapabilitiesAreThoseOfTheTemplate) {
  KnownModel service(
      "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|{{ m.role }}|>"
      "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}"
      "{% for c in m.tool_calls or [] %}<tool_call>{{ {'name': c.function.name, 'arguments': c.function.arguments} | "
      "tojson }}</tool_call>{% endfor %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}");
  EXPECT_EQ(service.post("/api/show", R"({"model":"count/er"})").json()["capabilities"],
            Json({"completion", "tools", "thinking", "embedding"}));
  KnownModel plain("");
  EXPECT_EQ(plain.post("/api/show", R"({"model":"count/er"})").json()["capabilities"],
            Json({"completion", "embedding"}));
}

TEST(OllamaModels, InMemory) {
  KnownModel service;
  const Json model = service.get("/api/ps").json().at("models").at(0);
  EXPECT_EQ(model["name"], "count/er:latest");
  EXPECT_EQ(model["size"], 6'000'000'000);
  EXPECT_EQ(model["size_vram"], 4'000'000'000);
  EXPECT_EQ(model["context_length"], 200);
  EXPECT_EQ(model["expires_at"], "2200-01-01T00:00:00Z");
  EXPECT_EQ(model["details"], Json::parse(details));
}

TEST(OllamaModels, WithoutFacts) {
  ServiceFixture service;
  service.serve();
  const Json page = service.post("/api/show", R"({"model":"count/er"})").json();
  EXPECT_EQ(page["model_info"]["general.architecture"], "unknown");
  EXPECT_EQ(page["model_info"]["unknown.context_length"], 200);
  EXPECT_EQ(page["details"]["parameter_size"], "0");
}

TEST(OllamaModels, NamesAndTags) {
  EXPECT_EQ(ollama_name("weft"), "weft:latest");
  EXPECT_EQ(ollama_name("weft:1b"), "weft:1b");
  EXPECT_EQ(ollama_name("host:5000/weft"), "host:5000/weft:latest");
}

TEST(OllamaModels, Version) {
  ServiceFixture loading;  // clients ask for it first
  EXPECT_EQ(loading.get("/api/version").json(), (Json{{"version", "0.13.4"}}));
  EXPECT_EQ(loading.get("/api/tags").status(), 503u);
}

TEST(OllamaModels, SomebodyIsThere) {
  ServiceFixture service({.keys = {"k"}});
  for (const char* method : {"GET", "HEAD"}) {
    const Recorded answer = service.ask(method, "/");
    EXPECT_EQ(answer.status(), 200u);
    EXPECT_EQ(answer.response().body, "heddle is running");
    EXPECT_TRUE(answer.response().type.starts_with("text/plain"));
  }
  EXPECT_EQ(service.get("/nothing").status(), 404u) << "it is not a prefix";
}

TEST(OllamaModels, PullingTheServedModelSucceeds) {
  KnownModel service;
  const Recorded streamed = service.post("/api/pull", R"({"model":"count/er"})");
  EXPECT_TRUE(streamed.streamed());
  EXPECT_EQ(streamed.text(), "{\"status\":\"success\"}\n");
  const Recorded whole = service.post("/api/pull", R"({"name":"count/er:latest","stream":false})");
  EXPECT_EQ(whole.json(), (Json{{"status", "success"}}));
  const Recorded other = service.post("/api/pull", R"({"model":"llama3.2"})");
  EXPECT_EQ(other.status(), 501u);
  test::expect_says(other.json()["error"].get<std::string>(), {"heddle pull", "llama3.2", "count/er"});
}

TEST(OllamaModels, ThereIsNoStore) {
  KnownModel service;
  const std::pair<const char*, const char*> routes[] = {
      {"POST", "/api/create"},   {"POST", "/api/copy"},           {"POST", "/api/push"},
      {"DELETE", "/api/delete"}, {"POST", "/api/blobs/sha256:0"}, {"HEAD", "/api/blobs/sha256:0"}};
  for (const auto& [method, path] : routes) {
    const Recorded answer = service.ask(method, path, R"({"model":"count/er"})");
    EXPECT_EQ(answer.status(), 501u) << path;
    test::expect_says(answer.json()["error"].get<std::string>(), {method, path, "heddle pull and heddle rm"});
  }
}

}  // namespace
}  // namespace heddle::server
