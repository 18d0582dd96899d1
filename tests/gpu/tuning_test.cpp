// What a search finds is written to a file and read back; shapes that do not fit are ignored.
#include "gpu/tuning.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/folder.h"

namespace heddle::gpu {
namespace {

using kernels::ClusterChoice;
using kernels::Product;
using kernels::ProductChoice;
using test::contents;
using test::Folder;

const Product gate{.format = uint32_t(quant::Format::q4_k), .norm = Product::rms, .out = Product::gate, .chained = 1};
const TuningKey gate_key = ProductKey{gate, 28672, 4096, false};
const TuningKey attention_key = AttentionKey{128, 8, 1, LengthClass::up_to_middle};
const std::string gate_text = "format=q4_k norm=rms out=gate chained=yes 4096 -> 28672";
const std::string attention_text = "8 kv heads of 128, 1 sequences, up to 8192 positions";

ProductChoice choice(Tuning& tuning, bool large = false) { return tuning.product(gate, 28672, 4096, large); }
ClusterChoice attention(Tuning& tuning, uint32_t length = 8192) { return tuning.attention(128, 8, 1, length, 132); }

void expect_same(const ProductChoice& a, const ProductChoice& b) {
  EXPECT_EQ(field_text(a.spec), field_text(b.spec));
  EXPECT_EQ(a.blocks_per_sm, b.blocks_per_sm);
}
void expect_same(const ClusterChoice& a, const ClusterChoice& b) {
  EXPECT_EQ(field_text(a.spec), field_text(b.spec));
  EXPECT_EQ(a.clusters, b.clusters);
}
void expect_defaults(Tuning& tuning, const std::string& why) {
  SCOPED_TRACE(why);
  expect_same(choice(tuning), kernels::product_choice(gate, 28672, 4096));
  expect_same(attention(tuning), kernels::cluster_choice(128, 8, 1, 8192, 132));
}

TEST(Tuning, WithoutAFileGivesTheDefaults) {
  Tuning none;
  EXPECT_EQ(none.known(), 0u);
  expect_defaults(none, "no file");
  expect_same(choice(none, true), kernels::product_choice(gate, 28672, 4096, true));
  EXPECT_FALSE(none.save());
  const Folder folder;
  Tuning missing(folder.file("there/is/none.txt"));
  expect_defaults(missing, "a file that is not there");
}

TEST(Tuning, AFileIsForGpusOfOneKind) {
  cuda::DeviceInfo device;
  device.name = "NVIDIA H200";
  device.sm = 90;
  device.sms = 132;
  EXPECT_EQ(tuning_file("a", device), "a/tuning/NVIDIA-H200-sm90-132.txt");
  device.name = "../evil/name";
  device.sms = 4;
  EXPECT_EQ(tuning_file("a", device), "a/tuning/---evil-name-sm90-4.txt");
}

TEST(Tuning, ASearchStartsWithTheDefaults) {
  Tuning tuning;
  tuning.begin_search();
  EXPECT_TRUE(tuning.searches().empty());
  expect_defaults(tuning, "nothing set yet");
  expect_defaults(tuning, "asked again");
  const auto searches = tuning.searches();
  ASSERT_EQ(searches.size(), 2u);
  EXPECT_EQ(text_of(searches[0].key), attention_text);
  EXPECT_EQ(text_of(searches[1].key), gate_text);
  EXPECT_EQ(searches[0].key, attention_key);
  EXPECT_EQ(searches[1].key, gate_key);
  for (const Tuning::Search& search : searches) {
    EXPECT_EQ(search.in_force, 0u);
    EXPECT_GT(search.candidates, 4u) << text_of(search.key);
  }
  // others have keys of their own
  choice(tuning, true);
  tuning.product(gate, 28672, 2048, false);
  for (uint32_t length : {1u, 1024u, 1025u, 8192u, 8193u, 131072u}) attention(tuning, length);
  EXPECT_EQ(tuning.searches().size(), 6u);
  tuning.begin_search();
  EXPECT_TRUE(tuning.searches().empty());
}

// Every candidate is another shape of the same computation, and is what it says when it is in force.
TEST(Tuning, CandidatesTakeEffectAndComeBackFromTheFile) {
  const Folder folder;
  const auto path = folder.file("of/this/gpu.txt");
  Tuning tuning(path);
  tuning.begin_search();
  choice(tuning);
  attention(tuning);
  const auto all = kernels::product_candidates(gate, 28672, 4096);
  ASSERT_EQ(tuning.searches()[1].candidates, all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    tuning.set(gate_key, i);
    EXPECT_EQ(tuning.searches()[1].in_force, i);
    expect_same(choice(tuning), all[i]);
    ASSERT_TRUE(tuning.save());
    Tuning back(path);
    EXPECT_EQ(back.known(), 2u);
    expect_same(choice(back), all[i]);
    EXPECT_TRUE(back.searches().empty());
  }
  for (size_t i = 0; i < tuning.searches()[0].candidates; ++i) {
    tuning.set(attention_key, i);
    const ClusterChoice now = attention(tuning);
    EXPECT_EQ(now.spec.merge, now.clusters > 1 ? 1u : 0u);
    EXPECT_NO_THROW(now.spec.build()) << field_text(now.spec);
    ASSERT_TRUE(tuning.save());
    Tuning back(path);
    expect_same(attention(back), now);
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path.parent_path()), {}), 1);  // nothing half-written
  EXPECT_THROW(tuning.set(AttentionKey{}, 0), std::out_of_range);
  EXPECT_THROW(tuning.set(gate_key, all.size()), std::out_of_range);
}

// Keys of every kind are the same after they were written and read, and have a text of their own.
TEST(Tuning, KeysComeBackFromTheFile) {
  const Folder folder;
  const auto path = folder.file("t.txt");
  Tuning tuning(path);
  tuning.begin_search();
  for (Product what : {gate, Product{.format = uint32_t(quant::Format::f32)}, Product{.mixed = 1, .exact = 1},
                       Product{.second = uint32_t(quant::Format::q4_k), .mixed = 1},
                       Product{.x = Product::x_bf16, .out = Product::qkv, .bias = 1, .halves = 1, .chained = 1}})
    for (bool large : {false, true})
      for (uint32_t columns : {1u, 2u})
        for (uint32_t cols : {1024u, 4096u}) {
          what.columns = columns;
          tuning.product(what, 256, cols, large);
        }
  for (uint32_t head : {64u, 128u})
    for (uint32_t sequences : {1u, 3u})
      for (uint32_t length : {1u, 1025u, 8193u}) tuning.attention(head, 8, sequences, length, 132);
  ASSERT_TRUE(tuning.save());
  EXPECT_EQ(tuning.known(), 5u * 2 * 2 * 2 + 2 * 2 * 3);
  std::set<std::string> texts;
  for (const Tuning::Search& search : tuning.searches()) texts.insert(text_of(search.key));
  EXPECT_EQ(texts.size(), tuning.known());
  const Tuning back(path);
  EXPECT_EQ(back.known(), tuning.known());
  const std::string written = contents(path);
  ASSERT_TRUE(back.save());
  EXPECT_EQ(contents(path), written);
}

TEST(Tuning, KeysOfOtherKindsAreLeftOut) {
  const Folder folder;
  for (const std::string key :
       {"product format=q4_k", "product format=q9_z 4096 -> 4096", "product format=q4_k wings=2 4096 -> 4096",
        "product format=q4_k 4096 -> 4096 more", "product format=q4_k 4096", "product 4096 -> 4096",
        "attention 8 kv heads of 128, 1 sequences, up to 4096 positions", "attention 8 kv heads of 128",
        "attention x kv heads of 128, 1 sequences, up to 8192 positions"}) {
    const Tuning tuning(folder.write("t.txt", "heddle tuning 1\n" + key + "\t16 4 1 2 2 76 0 1\n"));
    EXPECT_EQ(tuning.known(), 0u) << key;
  }
}

TEST(Tuning, AFileKeepsWhatOtherModelsFound) {
  const Folder folder;
  const auto path = folder.file("t.txt");
  Tuning first(path);
  first.begin_search();
  choice(first);
  first.set(gate_key, 1);
  ASSERT_TRUE(first.save());
  Tuning second(path);
  second.begin_search();
  attention(second);
  second.set(attention_key, 2);
  ASSERT_TRUE(second.save());
  Tuning both(path);
  EXPECT_EQ(both.known(), 2u);
  expect_same(choice(both), choice(first));
  expect_same(attention(both), attention(second));
  // the later of two wins
  first.set(gate_key, 2);
  ASSERT_TRUE(first.save());
  Tuning last(path);
  expect_same(choice(last), choice(first));
  expect_same(attention(last), attention(second));
}

TEST(Tuning, ForeignFilesAreIgnored) {
  const Folder folder;
  const std::string line = "product " + gate_text + "\t16 2 1 3 2 76 0 1\n";
  for (const std::string& text :
       {std::string(), "\n" + line, line, "heddle tuning 2\n" + line, "heddle tuning 1 \n" + line,
        std::string(1000, '\xff'), std::string("\0heddle tuning 1\n", 17) + line}) {
    Tuning tuning(folder.write("t.txt", text));
    EXPECT_EQ(tuning.known(), 0u) << text;
    expect_defaults(tuning, text);
  }
  Tuning is_a_folder(folder.path());
  expect_defaults(is_a_folder, "a folder");
  EXPECT_FALSE(is_a_folder.save());
}

TEST(Tuning, DamagedLinesAreIgnored) {
  const Folder folder;
  auto with = [&](const std::string& lines) { return Tuning(folder.write("t.txt", "heddle tuning 1\n" + lines)); };
  for (const std::string line :
       {"product", "product ", "product\t1 2 3", "gemm x\t1 2 3 4 5 6 7 8", "\t\t\t", "", " \t"}) {
    Tuning tuning = with(line + "\n");
    expect_defaults(tuning, line);
  }
  const std::string good = "16 4 1 2 2 76 0 1";
  Tuning kept = with("\n\nnonsense\nproduct " + gate_text + "\t" + good + "\nproduct other\tx");
  EXPECT_EQ(choice(kept).spec.groups, 4u);
  EXPECT_EQ(choice(kept).blocks_per_sm, 1u);
  // a line without eight numbers is left out
  for (const char* numbers : {"", "16", "16 4 1 2 2 76 0", "16 4 1 2 2 76 0 x", "16 4 1 2 2 76 0 -1",
                              "16 4 1 2 2 76 0 99999999999999999999"}) {
    Tuning tuning = with("product " + gate_text + "\t" + numbers + "\n");
    EXPECT_EQ(tuning.known(), 0u) << numbers;
    expect_defaults(tuning, numbers);
  }
  // a shape that does not fit the product is not used
  for (const char* numbers :
       {"16 4 1 2 2 76 0 0", "16 4 1 2 2 76 0 9", "16 3 1 2 2 76 0 1", "16 0 1 2 2 76 0 1", "16 4 0 2 2 76 0 1",
        "16 4 3 2 2 76 0 1", "16 4 1 0 2 76 0 1", "16 4 1 9 2 76 0 1", "16 4 1 2 0 76 0 1", "16 4 1 2 5 76 0 1",
        "16 4 1 8 2 76 0 1", "16 4 1 2 2 65535 0 1", "8 2 1 2 2 76 0 1", "48 4 1 2 2 76 0 1", "32 8 1 2 1 0 0 1 "}) {
    Tuning tuning = with("product " + gate_text + "\t" + numbers + "\n");
    EXPECT_EQ(tuning.known(), 1u) << numbers;
    if (std::string(numbers) != "32 8 1 2 1 0 0 1 ") expect_defaults(tuning, numbers);
    EXPECT_NO_THROW(choice(tuning).spec.build()) << numbers;
  }
  for (const char* numbers : {"", "8 8 2 4 1", "8 8 2 4 x 0", "8 8 2 4 1 x", "3 8 2 4 1 0", "8 3 2 4 1 0",
                              "8 8 0 4 1 0", "8 8 17 4 1 0", "8 8 2 3 1 0", "8 2 2 4 1 0", "8 16 16 4 1 0",
                              "2 8 3 4 9 0", "2 8 3 4 0 0", "0 8 2 4 1 0", "1 8 2 4 65535 0", "2 8 3 4 1 17"}) {
    Tuning tuning = with("attention " + attention_text + "\t" + numbers + "\n");
    expect_defaults(tuning, numbers);
  }
  Tuning used = with("attention " + attention_text + "\t2 8 2 4 8 3\n");
  EXPECT_EQ(attention(used).spec.splits, 2u);
  EXPECT_EQ(attention(used).spec.stages, 2u);
  EXPECT_EQ(attention(used).clusters, 8u);
  EXPECT_EQ(attention(used).spec.ahead, 3u);
  EXPECT_TRUE(attention(used).spec.merge);
}

TEST(Tuning, RemembersTheShapesForManyVectors) {
  Tuning tuning;
  const kernels::WgmmaProduct what{.out = kernels::Product::add};
  const kernels::WgmmaProduct& some = tuning.many_vectors(what, 4096, 4096, 512, 132);
  EXPECT_EQ(some, kernels::wgmma_product_choice(what, 4096, 4096, 512, 132));
  EXPECT_EQ(&tuning.many_vectors(what, 4096, 4096, 512, 132), &some);
  EXPECT_EQ(tuning.many_vectors(what, 4096, 4096, 8, 132), kernels::wgmma_product_choice(what, 4096, 4096, 8, 132));
  EXPECT_NE(tuning.many_vectors(what, 4096, 4096, 8, 132), some);
}

// Without wgmma they follow from the GPU.
TEST(Tuning, RemembersTheShapesForManyVectorsOfAnyGpu) {
  cuda::DeviceInfo device;
  device.sm = 86;
  device.sms = 82;
  device.shared_per_block_optin = 99 * 1024;
  Tuning tuning;
  const kernels::MmaTiles what;
  const kernels::MmaTiles& some = tuning.many_vectors(what, 4096, 4096, 509, device);
  EXPECT_EQ(some, kernels::mma_tiles_choice(what, 4096, 4096, 512, 82, 99 * 1024));
  EXPECT_EQ(&some, &tuning.many_vectors(what, 4096, 4096, 512, device));
  device.sm = 75;
  device.shared_per_block_optin = 64 * 1024;
  Tuning of_older;
  EXPECT_EQ(of_older.many_vectors(what, 4096, 4096, 512, device),
            kernels::mma_tiles_choice({.async = 0}, 4096, 4096, 512, 82, 64 * 1024));
}

TEST(Tuning, ShapesForManyVectorsAreSearchedAndComeBackFromTheFile) {
  const Folder folder;
  const auto path = folder.file("gpu.txt");
  const kernels::WgmmaProduct what{.out = kernels::Product::gate, .chained = 1};
  auto ask = [&](Tuning& tuning, uint32_t vectors = 61) {
    return tuning.many_vectors(what, 28672, 4096, vectors, 132);
  };
  Tuning tuning(path);
  tuning.begin_search();
  const auto all = kernels::wgmma_product_candidates(what, 28672, 4096, 64, 132);
  EXPECT_EQ(ask(tuning), all[0]);
  EXPECT_EQ(ask(tuning, 57), all[0]);  // the same eight
  const auto searches = tuning.searches();
  ASSERT_EQ(searches.size(), 1u);
  EXPECT_EQ(text_of(searches[0].key), "format=q4_k out=gate chained=yes 4096 -> 28672 x 64");
  ASSERT_GT(searches[0].candidates, 3u);
  for (size_t i = 0; i < searches[0].candidates; ++i) {
    tuning.set(searches[0].key, i);
    EXPECT_EQ(ask(tuning), all[i]);
    ASSERT_TRUE(tuning.save());
    Tuning back(path);
    EXPECT_EQ(back.known(), 1u);
    EXPECT_EQ(ask(back), all[i]);
    EXPECT_EQ(ask(back, 65), kernels::wgmma_product_choice(what, 28672, 4096, 72, 132));
  }
}

// A shape of another version, or one that does not fit.
TEST(Tuning, ShapesForManyVectorsThatDoNotFitAreLeftOut) {
  const kernels::WgmmaProduct what;
  const kernels::WgmmaProduct choice = kernels::wgmma_product_choice(what, 4096, 4096, 64, 132);
  for (const char* numbers : {"64 9 1 1 128 1 4 2 0", "256 4 1 1 64 1 2 2 0", "64 1 4 1 128 1 3 4 0",
                              "60 1 1 1 128 1 4 2 0", "64 1 1 1 1 4", "128 2 1 1 128 1 2 2 0"}) {
    const Folder folder;
    const auto path = folder.file("gpu.txt");
    std::ofstream(path) << "heddle tuning 1\nmany_vectors format=q4_k 4096 -> 4096 x 64\t" << numbers << "\n";
    Tuning tuning(path);
    EXPECT_EQ(tuning.many_vectors(what, 4096, 4096, 64, 132), choice) << numbers;
  }
}

}  // namespace
}  // namespace heddle::gpu
