#include "store/store.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sim_file.h"
#include "store/samples_for_tests.h"
#include "tensor/python_for_tests.h"

namespace aerie {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;
namespace files = std::filesystem;

class Store : public testing::Test {
 protected:
  Store() {
    path = testing::TempDir() + "store_" + std::to_string(::getpid()) + "_" +
           testing::UnitTest::GetInstance()->current_test_info()->name();
    files::remove_all(path);
  }
  ~Store() override { files::remove_all(path); }

  std::unique_ptr<StoreWriter> writer(StoreConfig config = {}) {
    auto opened = StoreWriter::open(fs, path, header, config);
    EXPECT_TRUE(opened.ok()) << opened.error().what;
    return *std::move(opened);
  }
  std::unique_ptr<StoreReader> reader() {
    auto opened = StoreReader::open(fs, path);
    EXPECT_TRUE(opened.ok()) << opened.error().what;
    return *std::move(opened);
  }
  Sample sample(const std::string& id, int64_t tokens = 9) { return small_sample(header, id, tokens, std::hash<std::string>{}(id)); }
  void fill(std::vector<std::string> ids) {
    auto w = writer();
    for (const auto& id : ids) EXPECT_TRUE(w->add(sample(id)).ok());
    EXPECT_TRUE(w->seal().ok());
  }
  std::vector<std::string> shards() {
    std::vector<std::string> found;
    for (const auto& entry : files::directory_iterator(path + "/shards")) found.push_back(entry.path());
    std::sort(found.begin(), found.end());
    return found;
  }
  Error open_error() {
    auto opened = StoreReader::open(fs, path);
    EXPECT_FALSE(opened.ok());
    return opened.ok() ? internal("opened") : opened.error();
  }

  FileSystem& fs = real_file_system();
  std::string path;
  StoreHeader header = small_header();
};

std::string content_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void flip(const std::string& path, uint64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const char byte = static_cast<char>(file.get() ^ 1);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(byte);
}

TEST_F(Store, GivesBackWhatWasSealed) {
  auto w = writer();
  EXPECT_THAT(*w->add(sample("b")), IsEmpty());
  EXPECT_THAT(*w->add(sample("a", 300)), IsEmpty());
  EXPECT_THAT(w->present(), IsEmpty());
  EXPECT_THAT(*w->seal(), ElementsAre("b", "a"));
  EXPECT_THAT(w->present(), UnorderedElementsAre("a", "b"));
  EXPECT_THAT(*w->seal(), IsEmpty());

  auto r = reader();
  ASSERT_EQ(r->samples().size(), 2u);
  EXPECT_EQ(r->samples()[0].id, "a");
  EXPECT_EQ(r->samples()[0].token_count, 300);
  EXPECT_EQ(r->samples()[0].supervised_count, 150);
  EXPECT_TRUE(same_sample(*r->read(0), sample("a", 300)));
  EXPECT_TRUE(same_sample(*r->read(1), sample("b")));
  auto tokens = r->read_tokens(0);
  EXPECT_EQ(tokens->input_ids, sample("a", 300).input_ids);
  EXPECT_EQ(tokens->loss_mask, sample("a", 300).loss_mask);
  EXPECT_TRUE(tokens->aux.empty());
  EXPECT_TRUE(r->verify().ok());
  EXPECT_EQ(r->read(2).error().code, Code::kInvalid);
}

TEST_F(Store, KeepsItsHeader) {
  header.facts_json = "{\"rope_theta\":100000.0,\"name\":\"x\"}";
  writer();
  auto r = reader();
  EXPECT_EQ(r->header().boundaries, header.boundaries);
  EXPECT_EQ(r->header().target_fingerprint, "fp-1");
  EXPECT_EQ(r->header().probe_json, header.probe_json);
  EXPECT_EQ(r->header().facts_json, header.facts_json);
  EXPECT_EQ(r->header().vocab_size, 1000);
  EXPECT_TRUE(r->header().last_is_prenorm);
}

TEST_F(Store, KeepsF32Exactly) {
  header = small_header("F32");
  Sample precise = sample("a");
  precise.last[0] = 0.1f;
  auto w = writer();
  ASSERT_TRUE(w->add(precise).ok());
  ASSERT_TRUE(w->seal().ok());
  EXPECT_TRUE(same_sample(*reader()->read(0), precise));
}

TEST_F(Store, SealsWhenTheShardIsFull) {
  StoreConfig config;
  config.shard_mb = 1;
  header = small_header("BF16", 1024);
  auto w = writer(config);
  EXPECT_THAT(*w->add(sample("a", 50)), IsEmpty());      // 0.41 MB
  EXPECT_THAT(*w->add(sample("b", 50)), IsEmpty());
  EXPECT_THAT(*w->add(sample("c", 50)), ElementsAre("a", "b"));
  EXPECT_THAT(*w->add(sample("d", 200)), ElementsAre("c"));  // 1.6 MB: a shard of its own
  EXPECT_THAT(*w->add(sample("e", 50)), ElementsAre("d"));
  ASSERT_TRUE(w->seal().ok());
  EXPECT_EQ(shards().size(), 4u);
  EXPECT_EQ(reader()->samples().size(), 5u);
}

TEST_F(Store, KeepsSamplesOfAllSizesApartOverManyShards) {
  StoreConfig config;
  config.shard_mb = 1;
  header = small_header("BF16", 256);
  auto w = writer(config);
  std::vector<std::string> durable;
  const auto tokens = [](int i) { return 1 + (i * 137) % 600; };  // up to 1.2 MB
  for (int i = 0; i < 16; ++i) {
    auto added = w->add(sample("s" + std::to_string(i), tokens(i)));
    ASSERT_TRUE(added.ok()) << added.error().what;
    durable.insert(durable.end(), added->begin(), added->end());
  }
  auto rest = w->seal();
  durable.insert(durable.end(), rest->begin(), rest->end());
  EXPECT_EQ(durable.size(), 16u);
  auto r = reader();
  ASSERT_EQ(r->samples().size(), 16u);
  for (size_t i = 0; i < 16; ++i) {
    const std::string id = r->samples()[i].id;
    auto read = r->read(i);
    ASSERT_TRUE(read.ok()) << read.error().what;
    EXPECT_TRUE(same_sample(*read, sample(id, tokens(std::stoi(id.substr(1)))))) << id;
  }
  EXPECT_TRUE(r->verify().ok());
}

TEST_F(Store, SealsWhenTheShardIsOld) {
  StoreConfig config;
  config.seal_after_s = 0;
  EXPECT_THAT(*writer(config)->add(sample("a")), ElementsAre("a"));
}

TEST_F(Store, LosesOnlyWhatWasNotSealed) {
  auto w = writer();
  ASSERT_TRUE(w->add(sample("a")).ok());
  ASSERT_TRUE(w->seal().ok());
  ASSERT_TRUE(w->add(sample("b")).ok());
  w.reset();
  EXPECT_EQ(shards().size(), 1u);
  EXPECT_THAT(writer()->present(), UnorderedElementsAre("a"));
}

TEST_F(Store, GoesOnWhereItStopped) {
  fill({"a"});
  fill({"b"});
  auto r = reader();
  EXPECT_EQ(r->samples().size(), 2u);
  EXPECT_TRUE(same_sample(*r->read(1), sample("b")));
  EXPECT_TRUE(r->verify().ok());
}

TEST_F(Store, TakesASampleOnce) {
  auto w = writer();
  ASSERT_TRUE(w->add(sample("a")).ok());
  EXPECT_THAT(*w->add(sample("a")), IsEmpty());
  EXPECT_EQ(w->add(sample("a", 10)).error().code, Code::kExists);
  ASSERT_TRUE(w->seal().ok());
  EXPECT_EQ(w->add(sample("a")).error().code, Code::kExists);
  EXPECT_EQ(w->skip("a", "no").error().code, Code::kExists);
  EXPECT_EQ(reader()->samples().size(), 1u);
}

TEST_F(Store, RefusesABadSampleAndGoesOn) {
  auto w = writer();
  Sample bad = sample("bad");
  bad.last[3] = std::numeric_limits<float>::quiet_NaN();
  auto refused = w->add(bad);
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_THAT(refused.error().what, HasSubstr("bad"));
  ASSERT_TRUE(w->add(sample("good")).ok());
  EXPECT_THAT(*w->seal(), ElementsAre("good"));
}

TEST_F(Store, NamesTheFieldThatDiffersOnGoingOn) {
  writer();
  const auto differs = [&](auto change, const char* field, const char* ours) {
    StoreHeader other = header;
    change(other);
    auto opened = StoreWriter::open(fs, path, other, {});
    ASSERT_FALSE(opened.ok()) << field;
    EXPECT_EQ(opened.error().code, Code::kInvalid);
    EXPECT_THAT(opened.error().what, HasSubstr(field));
    EXPECT_THAT(opened.error().what, HasSubstr(ours));
  };
  differs([](auto& h) { h.target_fingerprint = "fp-2"; }, "target_fingerprint", "fp-2");
  differs([](auto& h) { h.boundaries = {2, 3, 5}; }, "boundaries is [2, 3, 4]", "[2, 3, 5]");
  differs([](auto& h) { h.dtype = "F32"; }, "dtype is \"BF16\"", "\"F32\"");
  differs([](auto& h) { h.hidden_size = 64; }, "hidden_size is 32", "64");
  differs([](auto& h) { h.vocab_size = 7; }, "vocab_size", "7");
  differs([](auto& h) { h.layer_count = 8; }, "layer_count", "8");
  differs([](auto& h) { h.last_is_prenorm = false; }, "last_is_prenorm is true", "false");
  differs([](auto& h) { h.engine = "vllm"; }, "engine", "vllm");
  differs([](auto& h) { h.architecture = "qwen3"; }, "architecture", "qwen3");
  differs([](auto& h) { h.weight_type = "Q4_1"; }, "weight_type", "Q4_1");
  StoreHeader renamed = header;
  renamed.target_name = "moved";
  renamed.probe_json = "{}";
  EXPECT_TRUE(StoreWriter::open(fs, path, renamed, {}).ok());
}

TEST_F(Store, IsNotMadeWithAHeaderThatCannotBe) {
  for (const auto change : std::vector<void (*)(StoreHeader&)>{
           [](StoreHeader& h) { h.boundaries = {}; }, [](StoreHeader& h) { h.boundaries = {3, 2}; },
           [](StoreHeader& h) { h.boundaries = {7}; }, [](StoreHeader& h) { h.dtype = "F16"; },
           [](StoreHeader& h) { h.hidden_size = 0; }}) {
    StoreHeader bad = header;
    change(bad);
    EXPECT_EQ(StoreWriter::open(fs, path, bad, {}).error().code, Code::kInvalid);
  }
  EXPECT_FALSE(*fs.exists(path + "/store.json"));
}

TEST(StoreOnAFailingDisk, IsNotBegunAnewWhenItsDescriptionCannotBeSeen) {
  const StoreHeader header = small_header();
  SimFileSystem disk;
  ASSERT_TRUE(StoreWriter::open(disk, "s", header, {}).ok());
  const auto described = read_file(disk, "s/store.json");
  // Whichever look fails: "s", its parents, or store.json itself.
  for (int64_t nth = 1; nth <= 3; ++nth) {
    disk.fail(SimFileSystem::Call::kInfo, nth, EIO);
    EXPECT_FALSE(StoreWriter::open(disk, "s", header, {}).ok()) << nth;
    EXPECT_EQ(*read_file(disk, "s/store.json"), *described) << nth;
  }
  disk.fail(SimFileSystem::Call::kInfo, 1, EACCES);
  EXPECT_NE(StoreReader::open(disk, "s").error().code, Code::kNotFound);
}

TEST_F(Store, HasOneWriterAtATimeAndNamesIt) {
  auto first = writer();
  auto second = StoreWriter::open(fs, path, header, {});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Code::kUnavailable);
  EXPECT_THAT(second.error().what, HasSubstr("process " + std::to_string(::getpid())));
  first.reset();
  EXPECT_TRUE(StoreWriter::open(fs, path, header, {}).ok());
}

TEST_F(Store, CleansOnlyWhatAnEarlierWriterLeft) {
  fill({"a"});
  std::ofstream(path + "/shards/s000009-aaaaaaaa.part") << "half";
  std::ofstream(path + "/store.json.tmp-1-0") << "half";
  std::ofstream(path + "/notes.txt") << "mine";
  EXPECT_EQ(reader()->samples().size(), 1u);
  EXPECT_TRUE(*fs.exists(path + "/shards/s000009-aaaaaaaa.part"));
  writer();
  EXPECT_FALSE(*fs.exists(path + "/shards/s000009-aaaaaaaa.part"));
  EXPECT_FALSE(*fs.exists(path + "/store.json.tmp-1-0"));
  EXPECT_TRUE(*fs.exists(path + "/notes.txt"));
  EXPECT_EQ(shards().size(), 1u);
}

TEST_F(Store, RemembersSkippedSamplesAndDropsATornLine) {
  auto w = writer();
  ASSERT_TRUE(w->skip("x", "too \"long\"").ok());
  ASSERT_TRUE(w->skip("y", "NaN").ok());
  w.reset();
  std::ofstream(path + "/skipped.jsonl", std::ios::app) << "{\"id\":\"z\",\"rea";
  w = writer();
  EXPECT_THAT(w->present(), UnorderedElementsAre("x", "y"));
  ASSERT_TRUE(w->skip("z", "again").ok());
  w.reset();
  EXPECT_THAT(writer()->present(), UnorderedElementsAre("x", "y", "z"));
  EXPECT_THAT(content_of(path + "/skipped.jsonl"), HasSubstr("\"reason\":\"too \\\"long\\\"\""));
}

TEST_F(Store, DoesNotForgetSkippedSamplesBehindABadLine) {
  writer();
  std::ofstream(path + "/skipped.jsonl") << "{\"id\":\"a\",\"reason\":\"\"}\nnonsense\n{\"id\":\"b\",\"reason\":\"\"}\n";
  auto opened = StoreWriter::open(fs, path, header, {});
  EXPECT_EQ(opened.error().code, Code::kCorrupt);
  EXPECT_THAT(opened.error().what, HasSubstr("line 2"));
}

TEST_F(Store, CountsASampleOnceThatIsInTwoShards) {
  fill({"a"});
  files::copy_file(shards()[0], path + "/shards/s000777-copy.safetensors");
  auto r = reader();
  EXPECT_EQ(r->samples().size(), 1u);
  EXPECT_TRUE(r->verify().ok());
  EXPECT_TRUE(same_sample(*r->read(0), sample("a")));
}

TEST_F(Store, RefusesTwoSamplesOfOneIdWithDifferentTokens) {
  fill({"a"});
  const std::string kept = path + ".kept", first = shards()[0];
  files::rename(first, kept);
  auto w = writer();
  ASSERT_TRUE(w->add(sample("a", 10)).ok());
  ASSERT_TRUE(w->seal().ok());
  files::rename(kept, path + "/shards/s000777-other.safetensors");
  const Error error = open_error();
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_THAT(error.what, HasSubstr("sample a"));
  EXPECT_THAT(error.what, HasSubstr("s000777"));
}

TEST_F(Store, RefusesAShardOfAnotherStore) {
  fill({"a"});
  const std::string kept = path + ".kept";
  files::rename(shards()[0], kept);
  files::remove_all(path);
  fill({"b"});
  files::rename(kept, path + "/shards/s000777-foreign.safetensors");
  EXPECT_THAT(open_error().what, HasSubstr("belongs to another store"));
}

TEST_F(Store, WithoutItsDescriptionIsNotOverwritten) {
  fill({"a"});
  files::remove(path + "/store.json");
  EXPECT_EQ(open_error().code, Code::kNotFound);
  EXPECT_EQ(StoreWriter::open(fs, path, header, {}).error().code, Code::kCorrupt);
}

TEST_F(Store, OfANewerVersionSaysSo) {
  writer();
  std::string text = content_of(path + "/store.json");
  text.replace(text.find("\"version\": 1"), 12, "\"version\": 2");
  std::ofstream(path + "/store.json") << text;
  EXPECT_EQ(open_error().code, Code::kInvalid);
  EXPECT_THAT(open_error().what, HasSubstr("newer"));
  std::ofstream(path + "/store.json") << "{";
  EXPECT_EQ(open_error().code, Code::kCorrupt);
}

// Flips single bits all over a shard; whatever opens must fail to verify, and what is read must be right.
TEST_F(Store, NoticesAFlippedBitAnywhere) {
  fill({"a", "b"});
  const std::string shard = shards()[0];
  const uint64_t size = files::file_size(shard);
  int opened_count = 0;
  for (uint64_t at = 0; at < size; at += at < 8192 ? 13 : 149) {
    flip(shard, at);
    auto opened = StoreReader::open(fs, path);
    if (opened.ok()) {
      ++opened_count;
      ASSERT_FALSE((*opened)->verify().ok()) << at;
      for (size_t i = 0; i < 2; ++i) {
        auto read = (*opened)->read(i);
        EXPECT_TRUE(!read.ok() || same_sample(*read, sample(read->id))) << at;
      }
    }
    flip(shard, at);
  }
  EXPECT_GT(opened_count, 10);
  EXPECT_TRUE(reader()->verify().ok());
}

TEST_F(Store, NamesShardSampleAndTensorOfDamage) {
  fill({"a", "b"});
  const std::string shard = shards()[0];
  const std::vector<int32_t> ids = sample("b").input_ids;
  const std::string needle(reinterpret_cast<const char*>(ids.data()), ids.size() * 4);
  flip(shard, content_of(shard).find(needle));
  auto r = reader();
  EXPECT_TRUE(r->read(0).ok());
  for (const Error& error : {r->read(1).error(), r->read_tokens(1).error(), r->verify().error()}) {
    EXPECT_EQ(error.code, Code::kCorrupt);
    EXPECT_THAT(error.what, HasSubstr(name_of(shard)));
    EXPECT_THAT(error.what, HasSubstr("sample b"));
    EXPECT_THAT(error.what, HasSubstr("input_ids"));
  }
}

TEST_F(Store, NoticesATruncatedShardWhenItIsOpened) {
  fill({"a"});
  const std::string shard = shards()[0];
  files::resize_file(shard, files::file_size(shard) - 4096);
  EXPECT_EQ(open_error().code, Code::kCorrupt);
  EXPECT_THAT(open_error().what, HasSubstr("truncated"));
  files::resize_file(shard, 0);
  EXPECT_EQ(open_error().code, Code::kCorrupt);
}

TEST_F(Store, NoticesARecordThatStandsInTheWrongPlace) {
  fill({"a", "b"});
  const std::string shard = shards()[0];
  const std::string bytes = content_of(shard);
  const size_t first = bytes.find("AERIEREC"), second = bytes.find("AERIEREC", first + 8);
  ASSERT_EQ(second - first, bytes.size() - second);
  std::ofstream(shard, std::ios::binary) << bytes.substr(0, first) + bytes.substr(second) + bytes.substr(first, second - first);
  auto r = reader();
  EXPECT_EQ(r->read(0).error().code, Code::kCorrupt);
  EXPECT_THAT(r->read(0).error().what, HasSubstr("is not the one that the shard's header names"));
  EXPECT_FALSE(r->verify().ok());
}

TEST_F(Store, IsReadByManyThreads) {
  fill({"a", "b", "c", "d"});
  auto r = reader();
  std::vector<std::jthread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 20; ++i) {
        const size_t at = (i + static_cast<size_t>(t)) % 4;
        auto read = r->read(at);
        if (read.ok() && same_sample(*read, sample(r->samples()[at].id))) ++good;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(good, 80);
}

TEST_F(Store, KeepsTheTargetsHead) {
  writer();
  const Tensor norm = tensor_f32("", {2}, std::vector<float>{1, 2});
  const Tensor lm_head = tensor_f32("", {3, 2}, std::vector<float>{1, 2, 3, 4, 5, 6});
  const Tensor embeddings = tensor_bf16("", {3, 2}, std::vector<float>{6, 5, 4, 3, 2, 1});
  EXPECT_EQ(read_target_head(fs, path).error().code, Code::kNotFound);
  ASSERT_TRUE(write_target_head(fs, path, norm.view(), lm_head.view(), {}).ok());
  auto head = read_target_head(fs, path);
  ASSERT_TRUE(head.ok()) << head.error().what;
  EXPECT_THAT(head->norm, ElementsAre(1, 2));
  EXPECT_THAT(head->lm_head, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(head->embeddings, IsEmpty());
  ASSERT_TRUE(write_target_head(fs, path, norm.view(), lm_head.view(), embeddings.view()).ok());
  EXPECT_THAT(read_target_head(fs, path)->embeddings, ElementsAre(6, 5, 4, 3, 2, 1));
  EXPECT_EQ(write_target_head(fs, path, lm_head.view(), lm_head.view(), {}).error().code, Code::kInvalid);
  EXPECT_EQ(write_target_head(fs, path, norm.view(), norm.view(), {}).error().code, Code::kInvalid);
}

// The example in docs/store.md, as it stands there.
TEST_F(Store, IsReadByTheDocumentsPythonExample) {
  if (const auto missing = missing_python("safetensors.numpy, numpy, ml_dtypes"); !missing.empty()) GTEST_SKIP() << missing;
  fill({"b", "a"});
  const std::string text = content_of(AERIE_TEST_DATA "/../../docs/store.md");
  const size_t begin = text.find("```python\n") + 10;
  ASSERT_GT(begin, 10u);
  const std::string script = path + "/example.py";
  std::ofstream(script) << text.substr(begin, text.find("```", begin) - begin);
  const auto run = run_python(script, "'" + path + "'");
  ASSERT_EQ(run.status, 0) << run.output;
  double aux_sum = 0;
  for (const float v : sample("b").aux) aux_sum += v;
  std::istringstream lines(run.output);
  std::string line;
  std::getline(lines, line);
  EXPECT_THAT(line, testing::StartsWith("b [" + std::to_string(sample("b").input_ids[0]) + ", "));
  std::istringstream numbers(line.substr(line.rfind(']') + 1));
  double printed = 0;
  numbers >> printed;
  EXPECT_NEAR(printed, aux_sum, 0.01);
  std::getline(lines, line);
  EXPECT_THAT(line, testing::StartsWith("a ["));
}

}  // namespace
}  // namespace aerie
