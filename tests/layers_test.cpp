// The walls between the rooms, read from #include lines: which room may use which, and where third-party headers may
// stand. The rules are a function of files, tested on made-up ones that break each rule, then applied to the real tree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace aerie {
namespace {

using Rooms = std::map<std::string, std::set<std::string>>;

// Each room and the rooms above it that it may include. CMakeLists.txt says the same (a test below compares).
const Rooms kMayUse = {
    {"base", {}},
    {"tensor", {"base"}},
    {"samples", {"base"}},
    {"target", {"base", "tensor"}},
    {"store", {"base", "tensor"}},
    {"extract", {"base", "tensor", "samples", "target", "store"}},
    {"train", {"base", "tensor", "samples", "store"}},
    {"draft", {"base", "tensor", "target", "train"}},
    {"bench", {"base", "samples", "target", "draft"}},
    {"app", {"base", "tensor", "samples", "target", "store", "extract", "train", "draft", "bench"}},
    {"main", {"app"}},  // no room: the few lines around app
};

struct SourceFile {
  std::string path;  // below src/, such as "store/shard.cpp"
  std::string text;
};

struct Include {
  std::string name;
  bool angle;
};

std::vector<Include> includes_of(const std::string& text) {
  static const std::regex kLine(R"re(^\s*#\s*include\s*([<"])([^>"]+)[>"])re");
  std::vector<Include> all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (std::smatch match; std::regex_search(line, match, kLine)) all.push_back({match[2], match[1] == "<"});
  return all;
}

std::string room_of(const std::string& path) { return path.substr(0, path.find('/')); }

bool is_header(const std::string& path) { return path.ends_with(".h"); }

bool is_test(const std::string& path) {
  const std::string stem = path.substr(0, path.rfind('.'));
  return stem.ends_with("_test") || stem.ends_with("_for_tests") || stem.ends_with("/test_support");
}

// The C++ standard library, and what the C library and the kernel offer.
bool is_system(const Include& include) {
  static const std::regex kStandard("[a-z_0-9]+");
  static const std::set<std::string> kPosix = {
      "dirent.h", "dlfcn.h",     "fcntl.h",      "fnmatch.h",     "getopt.h", "glob.h",     "netdb.h",
      "poll.h",   "pthread.h",   "pwd.h",        "sched.h",       "signal.h", "spawn.h",    "termios.h",
      "unistd.h", "arpa/inet.h", "netinet/in.h", "netinet/tcp.h", "omp.h",    "immintrin.h"};
  return include.angle && (std::regex_match(include.name, kStandard) || kPosix.contains(include.name) ||
                           include.name.starts_with("sys/") || include.name.starts_with("linux/"));
}

bool matches(const std::string& name, const char* pattern) { return std::regex_match(name, std::regex(pattern)); }
bool is_torch(const std::string& name) { return matches(name, "(torch|ATen|c10|caffe2)/.*"); }
bool is_llama(const std::string& name) {
  return matches(name,
                 "(.*/)?(llama|ggml|gguf|common|chat|sampling|speculative|arg|log|jinja|minja)([-_.].*)?\\.(h|hpp)") ||
         matches(name, "(.*/)?(llama|ggml|gguf|common|chat|sampling|speculative)\\.h");
}
bool is_gtest(const std::string& name) { return name.starts_with("gtest/") || name.starts_with("gmock/"); }

// Third party that stays behind one door: pattern of the header, the only room.
const std::vector<std::pair<const char*, const char*>> kOneDoor = {{"CLI/.*", "app"},
                                                                   {"toml\\+\\+/.*|toml\\.hpp", "base"},
                                                                   {"spdlog/.*", "base"},
                                                                   {"curl/.*", "base"},
                                                                   {"openssl/.*", "base"},
                                                                   {"xxhash\\.h", "base"},
                                                                   {"isa-l/.*|isa-l\\.h", "store"}};

std::string checked_room(const SourceFile& file, const Include& include) {
  const std::string room = room_of(file.path), used = room_of(include.name);
  if (room == used || kMayUse.at(room).contains(used)) return "";
  return "room " + room + " may not use room " + used;
}

std::string checked_third_party(const SourceFile& file, const Include& include,
                                std::map<std::string, std::set<std::string>>& llama_files) {
  const std::string& name = include.name;
  const std::string room = room_of(file.path);
  if (is_gtest(name)) return is_test(file.path) ? "" : "only tests include GoogleTest";
  if (is_header(file.path)) return "third-party headers stand in .cpp files only";
  if (is_torch(name)) return room == "train" || room == "draft" ? "" : "LibTorch belongs to the rooms train and draft";
  if (is_llama(name)) {
    if (room != "target" && room != "draft") return "llama.cpp belongs to the rooms target and draft";
    if (!file.path.starts_with(room + "/llama/")) llama_files[room].insert(file.path);
    return "";
  }
  for (const auto& [pattern, door] : kOneDoor)
    if (matches(name, pattern) && room != door) return "this library belongs to the room " + std::string(door);
  return "";
}

// One sentence for each broken rule: "store/shard.cpp includes train/train.h: room store may not use room train".
std::vector<std::string> violations(const std::vector<SourceFile>& files) {
  std::vector<std::string> found;
  std::map<std::string, std::set<std::string>> llama_files;  // of a room, outside its folder llama
  for (const SourceFile& file : files) {
    if (!kMayUse.contains(room_of(file.path))) {
      found.push_back(file.path + " is in no room of the map");
      continue;
    }
    for (const Include& include : includes_of(file.text)) {
      std::string what;
      if (!include.angle && kMayUse.contains(room_of(include.name)) && include.name.find('/') != std::string::npos) {
        what = checked_room(file, include);
        if (what.empty() && is_test(include.name) && !is_test(file.path)) what = "only tests include what is for tests";
      } else if (!is_system(include)) {
        what = checked_third_party(file, include, llama_files);
      }
      if (!what.empty()) found.push_back(file.path + " includes " + include.name + ": " + what);
    }
  }
  for (const auto& [room, paths] : llama_files)
    if (paths.size() > 1)
      for (const std::string& path : paths)
        found.push_back(path + " includes llama.cpp: in room " + room +
                        " that is for one file, or for the folder llama");
  return found;
}

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> of(std::vector<SourceFile> files) { return violations(files); }

TEST(Layers, AcceptRoomsAboveOwnRoomAndSystemHeaders) {
  EXPECT_THAT(of({{"store/shard.cpp",
                   "#include \"store/shard.h\"\n#include \"tensor/tensor.h\"\n#include <vector>\n#include "
                   "<sys/file.h>\n#include <isa-l/crc.h>\n"}}),
              IsEmpty());
}

TEST(Layers, RefuseARoomBelow) {
  EXPECT_THAT(of({{"store/shard.cpp", "#include \"train/train.h\"\n"}}),
              ElementsAre("store/shard.cpp includes train/train.h: room store may not use room train"));
  EXPECT_THAT(of({{"base/file.cpp", "  #  include \"tensor/tensor.h\" // why\n"}}),
              ElementsAre(HasSubstr("room base may not use room tensor")));
  EXPECT_THAT(of({{"samples/samples_test.cpp", "#include \"tensor/tensor.h\"\n"}}),
              ElementsAre(HasSubstr("room samples may not use room tensor")))
      << "tests too";
  EXPECT_THAT(of({{"train/train.cpp", "#include \"draft/export.h\"\n"}}),
              ElementsAre(HasSubstr("room train may not use room draft")));
  EXPECT_THAT(of({{"main/main.cpp", "#include \"train/train.h\"\n"}}), ElementsAre(HasSubstr("may not use")));
}

TEST(Layers, RefuseAFolderThatIsNoRoom) {
  EXPECT_THAT(of({{"common/types.h", ""}}), ElementsAre("common/types.h is in no room of the map"));
}

TEST(Layers, RefuseThirdPartyInHeaders) {
  for (const char* header :
       {"nlohmann/json.hpp", "torch/torch.h", "fmt/core.h", "curl/curl.h", "Eigen/Dense", "zstd.h"})
    EXPECT_THAT(of({{"train/train.h", "#include <" + std::string(header) + ">\n"}}),
                ElementsAre(HasSubstr(".cpp files only")))
        << header;
  EXPECT_THAT(of({{"target/llama/capture.h", "#include \"llama.h\"\n"}}), ElementsAre(HasSubstr(".cpp files only")));
  EXPECT_THAT(of({{"bench/fake_engine_test.h", "#include <fmt/format.h>\n"}}), ElementsAre(HasSubstr(".cpp files only")));
}

TEST(Layers, RefuseTorchOutsideTrainAndDraft) {
  for (const char* header : {"torch/torch.h", "ATen/ATen.h", "ATen/ops/mm.h", "c10/core/Device.h"}) {
    const std::string text = "#include <" + std::string(header) + ">\n";
    EXPECT_THAT(of({{"store/store.cpp", text}}), ElementsAre(HasSubstr("LibTorch belongs")));
    EXPECT_THAT(of({{"bench/bench.cpp", text}}), ElementsAre(HasSubstr("LibTorch belongs")));
    EXPECT_THAT(of({{"train/a.cpp", text}, {"draft/b.cpp", text}}), IsEmpty());
  }
}

TEST(Layers, RefuseLlamaOutsideTargetAndDraft) {
  for (const char* header : {"llama.h", "ggml.h", "ggml-backend.h", "gguf.h", "common.h", "common/common.h", "chat.h",
                             "llama-cpp.h", "speculative.h"})
    for (const char* form : {"#include <%>\n", "#include \"%\"\n"}) {
      const std::string text = std::regex_replace(form, std::regex("%"), header);
      EXPECT_THAT(of({{"tensor/gguf.cpp", text}}), ElementsAre(HasSubstr("llama.cpp belongs"))) << header;
      EXPECT_THAT(of({{"app/info.cpp", text}}), ElementsAre(HasSubstr("llama.cpp belongs"))) << header;
      EXPECT_THAT(
          of({{"target/llama/capture.cpp", text}, {"draft/llama/engine.cpp", text}, {"draft/llama/other.cpp", text}}),
          IsEmpty())
          << header;
    }
}

TEST(Layers, RefuseLlamaInMoreThanOneFileOutsideItsFolder) {
  EXPECT_THAT(of({{"target/a.cpp", "#include \"llama.h\"\n"}}), IsEmpty());
  EXPECT_THAT(of({{"target/a.cpp", "#include \"llama.h\"\n"}, {"target/b.cpp", "#include \"ggml.h\"\n"}}),
              testing::SizeIs(2));
}

TEST(Layers, DoNotTakeOurOwnGgufHeaderForLlamas) {
  EXPECT_THAT(of({{"tensor/gguf.cpp", "#include \"tensor/gguf.h\"\n"}}), IsEmpty());
}

TEST(Layers, RefuseALibraryBehindAnotherRoomsDoor) {
  EXPECT_THAT(of({{"train/a.cpp", "#include <CLI/CLI.hpp>\n"}}), ElementsAre(HasSubstr("belongs to the room app")));
  EXPECT_THAT(of({{"app/a.cpp", "#include <CLI/CLI.hpp>\n"}}), IsEmpty());
  for (const char* header : {"toml++/toml.h", "spdlog/spdlog.h", "curl/curl.h"}) {
    const std::string text = "#include <" + std::string(header) + ">\n";
    EXPECT_THAT(of({{"app/a.cpp", text}}), ElementsAre(HasSubstr("belongs to the room base"))) << header;
    EXPECT_THAT(of({{"base/a.cpp", text}}), IsEmpty());
  }
}

TEST(Layers, RefuseTestThingsInTheProgram) {
  EXPECT_THAT(of({{"store/shard.cpp", "#include <gtest/gtest.h>\n"}}), ElementsAre(HasSubstr("only tests")));
  EXPECT_THAT(of({{"store/shard.cpp", "#include \"store/samples_for_tests.h\"\n"}}),
              ElementsAre(HasSubstr("only tests")));
  EXPECT_THAT(of({{"store/shard_test.cpp", "#include <gtest/gtest.h>\n#include \"store/samples_for_tests.h\"\n"}}),
              IsEmpty());
}

std::vector<SourceFile> real_tree() {
  namespace files = std::filesystem;
  const files::path src = files::path(AERIE_SOURCE_DIR) / "src";
  std::vector<SourceFile> tree;
  for (const auto& entry : files::recursive_directory_iterator(src)) {
    if (entry.path().extension() != ".h" && entry.path().extension() != ".cpp") continue;
    std::ifstream in(entry.path());
    std::ostringstream text;
    text << in.rdbuf();
    tree.push_back({entry.path().lexically_relative(src).generic_string(), text.str()});
  }
  return tree;
}

TEST(Layers, HoldInTheRealTree) {
  const std::vector<SourceFile> tree = real_tree();
  size_t includes = 0;
  for (const SourceFile& file : tree) includes += includes_of(file.text).size();
  ASSERT_GT(tree.size(), 100u) << "the tree was not found under " AERIE_SOURCE_DIR;
  ASSERT_GT(includes, 500u);
  const auto found = violations(tree);
  EXPECT_THAT(found, IsEmpty()) << found.size() << " broken rules";
}

// aerie_room(NAME USES a b LINK ...) of CMakeLists.txt.
Rooms rooms_of_cmake(const std::string& text) {
  static const std::regex kRoom(R"(aerie_room\(([a-z]+)([^)]*)\))");
  static const std::set<std::string> kOtherKeywords = {"LINK", "NEEDS", "OPTIONAL_FOLDER", "OPTIONAL_LINK"};
  Rooms rooms;
  for (std::sregex_iterator match(text.begin(), text.end(), kRoom), end; match != end; ++match) {
    std::set<std::string>& uses = rooms[(*match)[1]];
    std::istringstream words((*match)[2]);
    bool listed = false;
    for (std::string word; words >> word;) {
      if (word == "USES" || kOtherKeywords.contains(word))
        listed = word == "USES";
      else if (listed)
        uses.insert(word);
    }
  }
  return rooms;
}

TEST(Layers, AreTheSameInTheBuild) {
  std::ifstream in(std::string(AERIE_SOURCE_DIR) + "/CMakeLists.txt");
  std::ostringstream text;
  text << in.rdbuf();
  Rooms expected = kMayUse;
  expected.erase("main");
  EXPECT_EQ(rooms_of_cmake(text.str()), expected);
  EXPECT_NE(rooms_of_cmake("aerie_room(base LINK fmt::fmt)\naerie_room(tensor USES base samples\n LINK x)"), expected);
}

}  // namespace
}  // namespace aerie
