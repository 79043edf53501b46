#include "base/sim_disk.h"

#include <algorithm>
#include <set>

#include "base/text.h"

namespace aerie {
namespace {

using Survives = SimFileSystem::Survives;

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  for (std::string_view part : split(path, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      if (!parts.empty()) parts.pop_back();
    } else {
      parts.emplace_back(part);
    }
  }
  return parts;
}

Survives drawn(Random& random) {
  switch (random.below(8)) {
    case 0: return Survives::kSynced;
    case 1: return Survives::kAll;
    case 2:
    case 3:
    case 4: return Survives::kPrefix;
    default: return Survives::kSubset;
  }
}

// Which of `count` changes in order survive.
std::vector<bool> kept(size_t count, Random& random, Survives what) {
  std::vector<bool> keep(count, what == Survives::kAll);
  if (what == Survives::kPrefix) std::fill_n(keep.begin(), random.below(count + 1), true);
  if (what == Survives::kSubset) {
    const uint64_t of_ten = 1 + random.below(9);
    for (size_t i = 0; i < count; ++i) keep[i] = random.below(10) < of_ten;
  }
  return keep;
}

}  // namespace

SimDisk::SimDisk() { nodes_[kRoot].folder = true; }

SimDisk::Place SimDisk::find(const std::string& path) const {
  const std::vector<std::string> parts = parts_of(path);
  Place place;
  if (parts.empty()) return {0, "", kRoot, false};
  Id folder = kRoot;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Node& node = at(folder);
    if (!node.folder) return {0, parts.back(), 0, true};
    const auto found = node.names.find(parts[i]);
    const Id id = found == node.names.end() ? 0 : found->second;
    if (i + 1 == parts.size()) return {folder, parts[i], id, false};
    if (id == 0) return {0, parts.back(), 0, false};
    folder = id;
  }
  return place;
}

std::vector<std::string> SimDisk::names(Id folder) const {
  std::vector<std::string> names;
  for (const auto& [name, id] : at(folder).names) names.push_back(name);
  return names;
}

uint64_t SimDisk::used_bytes() const {
  std::set<Id> named;
  for (const auto& [id, node] : nodes_)
    for (const auto& [name, child] : node.names) named.insert(child);
  uint64_t used = 0;
  for (const Id id : named) used += at(id).shown.size();
  return used;
}

SimDisk::Id SimDisk::make(const Place& place, bool folder) {
  const Id id = ++last_id_;
  nodes_[id].folder = folder;
  nodes_[id].modified = ++now_;
  name(place, id);
  return id;
}

void SimDisk::apply(const Change& change, std::string& content) {
  if (change.empties) {
    content.clear();
    return;
  }
  const size_t end = change.offset + change.bytes.size();
  if (content.size() < end) content.resize(end, '\0');
  std::copy(change.bytes.begin(), change.bytes.end(), content.begin() + static_cast<std::ptrdiff_t>(change.offset));
}

void SimDisk::empty(Id id) {
  at(id).pending.push_back({true, 0, ""});
  at(id).shown.clear();
  at(id).modified = ++now_;
}

void SimDisk::write(Id id, uint64_t offset, std::string bytes) {
  if (bytes.empty()) return;
  at(id).pending.push_back({false, offset, std::move(bytes)});
  apply(at(id).pending.back(), at(id).shown);
  at(id).modified = ++now_;
}

void SimDisk::apply(const NameChange& change, bool to_disk) {
  for (const NameChange::Edit& edit : change.edits) {
    const auto folder = nodes_.find(edit.folder);
    if (folder == nodes_.end()) continue;
    auto& names = to_disk ? folder->second.held_names : folder->second.names;
    if (edit.id == 0)
      names.erase(edit.name);
    else
      names[edit.name] = edit.id;
  }
}

void SimDisk::name(const Place& place, Id id) {
  pending_names_.push_back({{{place.folder, place.name, id}}});
  apply(pending_names_.back(), false);
  at(place.folder).modified = ++now_;
}

void SimDisk::move(const Place& from, const Place& to) {
  pending_names_.push_back({{{from.folder, from.name, 0}, {to.folder, to.name, from.id}}});
  apply(pending_names_.back(), false);
  at(from.folder).modified = at(to.folder).modified = ++now_;
}

void SimDisk::sync_content(Id id) {
  for (const Change& change : at(id).pending) apply(change, at(id).held);
  at(id).pending.clear();
}

void SimDisk::sync_names(Id folder) {
  std::vector<NameChange> left;
  for (NameChange& change : pending_names_) {
    const bool touches =
        std::any_of(change.edits.begin(), change.edits.end(), [&](const auto& edit) { return edit.folder == folder; });
    if (touches)
      apply(change, true);
    else
      left.push_back(std::move(change));
  }
  pending_names_ = std::move(left);
}

void SimDisk::lose_unsynced(Id id, bool show_old) {
  at(id).pending.clear();
  if (show_old) at(id).shown = at(id).held;
}

void SimDisk::damage(Id id, uint64_t offset, const std::string& bytes) {
  apply({false, offset, bytes}, at(id).shown);
  apply({false, offset, bytes}, at(id).held);
}

bool SimDisk::inside(Id id, Id folder) const {
  if (id == folder) return true;
  for (const auto& [name, child] : at(folder).names)
    if (is_folder(child) && inside(id, child)) return true;
  return false;
}

std::vector<SimDisk::Change> SimDisk::in_sectors(const std::vector<Change>& changes) {
  std::vector<Change> pieces;
  for (const Change& change : changes) {
    if (change.empties) pieces.push_back(change);
    for (size_t begin = 0; begin < change.bytes.size();) {
      const uint64_t offset = change.offset + begin;
      const size_t length = std::min<size_t>(change.bytes.size() - begin, kSector - offset % kSector);
      pieces.push_back({false, offset, change.bytes.substr(begin, length)});
      begin += length;
    }
  }
  return pieces;
}

void SimDisk::crash(Random& random, Survives what) {
  if (what == Survives::kDrawn) what = drawn(random);
  for (auto& [id, node] : nodes_) {
    const std::vector<Change> pieces = in_sectors(node.pending);
    const std::vector<bool> keep = kept(pieces.size(), random, what);
    for (size_t i = 0; i < pieces.size(); ++i)
      if (keep[i]) apply(pieces[i], node.held);
    // The size may have reached the disk before the data.
    if (!pieces.empty() && what != Survives::kSynced && random.below(2) == 0 && node.held.size() < node.shown.size())
      node.held.resize(node.shown.size(), '\0');
    node.shown = node.held;
    node.pending.clear();
  }
  const std::vector<bool> keep = kept(pending_names_.size(), random, what);
  for (size_t i = 0; i < keep.size(); ++i)
    if (keep[i]) apply(pending_names_[i], true);
  pending_names_.clear();
  for (auto& [id, node] : nodes_) node.names = node.held_names;
  forget_nameless();
}

void SimDisk::forget_nameless() {
  std::set<Id> reached;
  std::vector<Id> open{kRoot};
  while (!open.empty()) {
    const Id id = open.back();
    open.pop_back();
    if (!reached.insert(id).second) continue;
    for (const auto& [name, child] : at(id).names) open.push_back(child);
  }
  std::erase_if(nodes_, [&](const auto& entry) { return !reached.contains(entry.first); });
}

}  // namespace aerie
