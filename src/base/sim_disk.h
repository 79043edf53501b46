// What the simulated file system holds: files and folders as programs see them, as the disk has them, and the changes
// between the two. Private to base; sim_file.h is the door.
//
// A plain value that can be copied. One thread. Numbers returned are errno values, 0 = done.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/sim_file.h"

namespace aerie {

class SimDisk {
 public:
  using Id = uint64_t;  // of a file or folder; 0 = none
  static constexpr Id kRoot = 1;
  static constexpr size_t kSector = 512;

  SimDisk();

  // Where a path leads. `folder` is 0 when its folder is not there, `id` when the name is not.
  struct Place {
    Id folder = 0;
    std::string name;
    Id id = 0;
    bool parent_is_file = false;
  };
  Place find(const std::string& path) const;
  bool is_folder(Id id) const { return at(id).folder; }
  const std::string& content(Id id) const { return at(id).shown; }
  std::vector<std::string> names(Id folder) const;
  int64_t modified(Id id) const { return at(id).modified; }
  uint64_t used_bytes() const;  // of all files that have a name

  Id make(const Place& place, bool folder);
  void empty(Id id);
  void write(Id id, uint64_t offset, std::string bytes);
  void name(const Place& place, Id id);           // id 0 removes it
  void move(const Place& from, const Place& to);  // one change: after a crash both names or neither
  void sync_content(Id id);
  void sync_names(Id folder);
  void lose_unsynced(Id id, bool show_old);  // what a failed sync does
  void damage(Id id, uint64_t offset, const std::string& bytes);
  bool inside(Id id, Id folder) const;  // is id the folder or in it

  void crash(Random& random, SimFileSystem::Survives what);

 private:
  struct Change {
    bool empties = false;  // else a write
    uint64_t offset = 0;
    std::string bytes;
  };
  struct Node {
    bool folder = false;
    std::string shown, held;  // content as seen, as on the disk
    std::map<std::string, Id> names, held_names;
    std::vector<Change> pending;  // in order; held + pending = shown unless a sync failed
    int64_t modified = 0;
  };
  struct NameChange {
    struct Edit {
      Id folder;
      std::string name;
      Id id;
    };
    std::vector<Edit> edits;
  };

  Node& at(Id id) { return nodes_.at(id); }
  const Node& at(Id id) const { return nodes_.at(id); }
  void apply(const NameChange& change, bool to_disk);
  static void apply(const Change& change, std::string& content);
  static std::vector<Change> in_sectors(const std::vector<Change>& changes);
  void forget_nameless();

  std::map<Id, Node> nodes_;
  std::vector<NameChange> pending_names_;
  Id last_id_ = kRoot;
  int64_t now_ = 0;  // counts changes
};

}  // namespace aerie
