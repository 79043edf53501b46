// How fast a store is written, read and verified, against plain files of the same bytes on the same disk.
//
//   store_rate [FOLDER] [MEGABYTES] [PAIRS]      defaults: the working folder, 512, 7
//
// Runs are interleaved (plain, store, plain, store, ...), because disks change by the minute; what counts is the median
// of the ratios. Reading comes from the page cache, so it compares the work, not the disk.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "store/samples_for_tests.h"
#include "store/store.h"

namespace {

using namespace aerie;

[[noreturn]] void give_up(const Error& error) {
  std::fprintf(stderr, "store_rate: %s\n", error.what.c_str());
  std::exit(exit_code(error));
}

template <class T>
T need(Result<T> result) {
  if (!result) give_up(result.error());
  return *std::move(result);
}

double seconds_of(const std::function<void()>& work) {
  const double begin_s = real_clock().monotonic_s();
  work();
  return real_clock().monotonic_s() - begin_s;
}

void write_plain(FileSystem& fs, const std::string& path, const std::vector<std::byte>& block, uint64_t bytes) {
  auto file = need(fs.create(path, Create::kTruncate));
  for (uint64_t at = 0; at < bytes; at += block.size()) {
    need(file->write(std::span(block).first(std::min<uint64_t>(block.size(), bytes - at))));
  }
  need(file->sync());
  need(file->close());
}

void read_plain(FileSystem& fs, const std::string& path, std::vector<std::byte>& block) {
  auto file = need(fs.open(path));
  for (uint64_t at = 0; at < file->size_bytes(); at += block.size()) {
    need(file->read_at(at, std::span(block).first(std::min<uint64_t>(block.size(), file->size_bytes() - at))));
  }
}

struct Series {
  std::vector<double> plain_s, store_s;
  void print(const char* what, uint64_t bytes) {
    std::vector<double> ratios;
    for (size_t i = 0; i < plain_s.size(); ++i) ratios.push_back(plain_s[i] / store_s[i]);
    const auto middle = [](std::vector<double> v) {
      std::sort(v.begin(), v.end());
      return v[v.size() / 2];
    };
    const auto [low, high] = std::minmax_element(ratios.begin(), ratios.end());
    const double gigabytes = static_cast<double>(bytes) / 1e9;
    std::printf("%-18s store %6.2f GB/s   plain %6.2f GB/s   ratio %.2f (%.2f to %.2f)\n", what,
                gigabytes / middle(store_s), gigabytes / middle(plain_s), middle(ratios), *low, *high);
  }
};

}  // namespace

int main(int argc, char** argv) {
  FileSystem& fs = real_file_system();
  const std::string folder = std::string(argc > 1 ? argv[1] : ".") + "/store_rate." + std::to_string(getpid());
  const auto wanted = static_cast<uint64_t>(argc > 2 ? std::atol(argv[2]) : 512) * 1000000;
  const int pairs = argc > 3 ? std::max(1, std::atoi(argv[3])) : 7;

  StoreHeader header = small_header("BF16", 2048);
  Sample sample = small_sample(header, "s", 500, 1);  // 8.2 MB
  const uint64_t sample_bytes = sample.input_ids.size() * (8 * 2048 + 5);
  const uint64_t count = std::max<uint64_t>(1, wanted / sample_bytes);
  std::vector<std::byte> block(4 << 20, std::byte{42});
  Series writing, reading, verifying;
  uint64_t bytes = 0;
  for (int pair = 0; pair < pairs; ++pair) {
    std::filesystem::remove_all(folder);
    need(fs.make_folders(folder));
    const std::string plain = folder + "/plain", store = folder + "/store";
    const double store_s = seconds_of([&] {
      auto writer = need(StoreWriter::open(fs, store, header, {}));
      for (uint64_t i = 0; i < count; ++i) {
        sample.id = "s" + std::to_string(i);
        need(writer->add(sample));
      }
      need(writer->seal());
    });
    bytes = 0;
    for (const auto& name : need(fs.list(store + "/shards"))) bytes += need(fs.info(store + "/shards/" + name)).size_bytes;
    writing.store_s.push_back(store_s);
    writing.plain_s.push_back(seconds_of([&] { write_plain(fs, plain, block, bytes); }));

    auto reader = need(StoreReader::open(fs, store));
    const double plain_s = seconds_of([&] { read_plain(fs, plain, block); });
    reading.plain_s.push_back(plain_s);
    reading.store_s.push_back(seconds_of([&] {
      for (size_t i = 0; i < reader->samples().size(); ++i) need(reader->read(i));
    }));
    verifying.plain_s.push_back(seconds_of([&] { read_plain(fs, plain, block); }));
    verifying.store_s.push_back(seconds_of([&] { need(reader->verify()); }));
  }
  std::filesystem::remove_all(folder);
  std::printf("%.0f MB in %llu samples, %d pairs\n", static_cast<double>(bytes) / 1e6,
              static_cast<unsigned long long>(count), pairs);
  writing.print("write and seal", bytes);
  reading.print("read to floats", bytes);
  verifying.print("verify", bytes);
  return 0;
}
