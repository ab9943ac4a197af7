#!/usr/bin/env python3
"""Builds the training text from documentation packages of Debian 12.

    python3 corpus.py --out corpus

Packages are fetched with `apt-get download` and unpacked with `dpkg -x`. Nothing is installed, and root is not needed.
mandoc, which is fetched the same way, renders manual pages. HTML is reduced to its text. Plain text is used directly.

The script writes three files to --out for each of the splits below, and log.txt:

  SPLIT.bin          the documents, one after another
  SPLIT.npy          where each document starts, with one entry more than documents
  SPLIT.package.npy  the package of each document, as its index in PACKAGES

  train        the text that the model is trained on
  heldout      about 6 % of the documents of the same packages, chosen by a hash of their path
  development  all documents of a few packages that are not trained on. The settings are chosen with them
  foreign      all documents of a few more such packages. They serve only for the reported figures

A document of the last three splits is left out if it shares much of its text with training documents.
"""
import argparse
import gzip
import hashlib
import html.parser
import os
import re
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

PACKAGES = """
apache2-doc apt-doc aptitude-doc-en autoconf automake bash-doc bind9-doc btrfs-progs
clang-14-doc cmake-doc coreutils cryptsetup-bin debian-faq debian-handbook debian-policy
debian-reference-en debmake-doc developers-reference diffutils doc-debian docbook-xsl-doc-html
dpkg-dev e2fsprogs erlang-manpages exim4-doc-html ffmpeg-doc findutils freebsd-manpages
gimp-help-en git-doc git-man glibc-doc gnupg-utils gnuplot-doc graphviz-doc groff grub2-common
harden-doc imagemagick-6-doc installation-guide-amd64 iproute2 iptables libcurl4-doc
libgtk-3-doc libncurses-dev libpcre2-dev libssl-doc lilypond-doc linux-doc-6.1 llvm-14-doc lvm2
maint-guide man-db manpages manpages-dev mercurial-common mutt ncurses-doc nmap nodejs-doc
octave-doc openssh-client openssh-server openssl passwd perl-doc postfix-doc postgresql-doc-15
procps python-django-doc python3.11-doc rsync rust-doc samba sqlite3-doc subversion sudo
systemd tar tcl8.6-doc tk8.6-doc util-linux valgrind vim-doc vim-runtime x11-xserver-utils
xorg-docs xserver-xorg-core zsh-doc
""".split()
DEVELOPMENT = {"aptitude-doc-en", "bind9-doc", "developers-reference", "exim4-doc-html", "gnuplot-doc",
               "sudo"}
FOREIGN = {"mutt", "postfix-doc", "harden-doc"}

PACKAGE_CAP = 5_000_000    # bytes of text from one package, so that no package dominates
DOCUMENT_CAP = 200_000     # characters of one document, for the same reason
DOCUMENT_MIN = 600         # bytes. A shorter document has no two crops that can be told apart
HELDOUT_SHARE = 0.06
SHINGLE_WORDS = 8          # words of a run. Documents are compared by their runs
DUPLICATE_SHARE = 0.5      # a document is left out if this part of its runs is in earlier documents
LEAK_SHARE = 0.1           # a document of another split is left out if this part of its runs is in training text


class TextOfHtml(html.parser.HTMLParser):
    """The text of a page without its scripts, styles and navigation."""
    SKIPPED = {"script", "style", "head", "nav", "header", "footer", "svg", "select", "button"}
    BLOCKS = {"p", "div", "li", "ul", "ol", "dl", "dt", "dd", "tr", "table", "br", "pre", "h1", "h2", "h3",
              "h4", "h5", "h6", "section", "article", "blockquote", "hr"}

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.parts, self.skipping, self.pre = [], [], 0

    def handle_starttag(self, tag, attributes):
        if self.skipping:
            if tag == self.skipping[-1]:
                self.skipping.append(tag)
        elif tag in self.SKIPPED:
            self.skipping.append(tag)
        elif tag in self.BLOCKS:
            self.pre += tag == "pre"
            self.parts.append("\n\n" if tag in ("p", "pre", "h1", "h2", "h3", "h4") else "\n")

    def handle_endtag(self, tag):
        if self.skipping:
            if tag == self.skipping[-1]:
                self.skipping.pop()
        elif tag in self.BLOCKS:
            self.pre -= tag == "pre" and self.pre > 0
            self.parts.append("\n")

    def handle_data(self, data):
        if not self.skipping:
            self.parts.append(data if self.pre else re.sub(r"\s+", " ", data))


def read(path):
    raw = gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes()
    return raw.decode("utf-8", "replace")


def clean(text):
    # Long runs of blanks, as in margins and tables, are shortened. They teach nothing. Guessing a masked blank between
    # blanks would improve the figures without reason.
    text = re.sub(r"[ \t]+\n", "\n", text.replace("\r", "").replace("\u00a0", " ").replace("\ufffd", ""))
    text = re.sub(r"[ \t]{3,}", "  ", text)
    text = re.sub(r"([-=_.*#~+])\1{5,}", r"\1\1\1\1\1", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def text_of(path, mandoc):
    """The text of one file, or None if the file is not documentation."""
    name = path.name.removesuffix(".gz")
    place = str(path)
    if re.search(r"/usr/share/man/man\d\w*/", place):
        page = gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes()
        if page.lstrip().startswith(b".so "):
            return None
        done = subprocess.run([mandoc, "-T", "utf8", "-O", "width=78"], input=page, capture_output=True)
        return re.sub(".\b", "", done.stdout.decode("utf-8", "replace"))
    if not re.search(r"/usr/share/(doc|info|vim|developers-reference|debian-reference|gtk-doc|gimp/[^/]+/help/en)/", place):
        return None
    if re.search(r"copyright|changelog|news|genindex|search\.html|/_static/|NOTICE|AUTHORS", place, re.I):
        return None
    if re.search(r"\.x?html?$", name):
        if re.search(r"\.(?!en)[a-z]{2}(-[a-z]{2})?(\.[\w-]+)?\.x?html?$", name, re.I):
            return None                        # a translation: page.fr.html
        parser = TextOfHtml()
        parser.feed(read(path))
        return "".join(parser.parts)
    if re.search(r"\.(txt|rst|md|texi|texinfo)$", name) or re.search(r"\.info(-\d+)?$", name) \
            or re.fullmatch(r"README[\w.-]*|FAQ|HACKING|TODO", name):
        return read(path)
    return None


def is_english(text):
    letters = sum(c.isalpha() for c in text[:20000])
    common = len(re.findall(r"\b(?:the|of|to|is|and|in|for)\b", text[:20000]))
    return letters > 0.4 * len(text[:20000]) and common > len(text[:20000]) / 400


def shingles(text):
    """Sorted hashes of all runs of SHINGLE_WORDS words."""
    words = np.array([zlib.crc32(w) for w in text.lower().split()], dtype=np.uint64)
    if len(words) < SHINGLE_WORDS:
        return np.zeros(0, np.uint64)
    value = np.zeros(len(words) - SHINGLE_WORDS + 1, np.uint64)
    for i in range(SHINGLE_WORDS):
        value = value * np.uint64(6364136223846793005) + words[i:len(words) - SHINGLE_WORDS + 1 + i]
    return np.unique(value ^ (value >> np.uint64(29)))


def sampled_shingles(text):
    """The hashes of one run in eight, chosen by the hash. These are enough to find near-duplicates."""
    values = shingles(text)
    return values[values % np.uint64(8) == 0].tolist()


def fetch(package, scratch):
    target = scratch / "unpacked" / package
    if target.exists():
        return target
    debs = scratch / "debs" / package
    debs.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["apt-get", "download", "-q", package], cwd=debs, capture_output=True, text=True)
    found = sorted(debs.glob("*.deb"))
    if done.returncode or not found:
        return None
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["dpkg", "-x", found[0], target], check=True)
    return target


def split_of(package, path):
    if package in FOREIGN:
        return "foreign"
    if package in DEVELOPMENT:
        return "development"
    draw = int.from_bytes(hashlib.sha256(f"{package}/{path}".encode()).digest()[:4], "big") / 2**32
    return "heldout" if draw < HELDOUT_SHARE else "train"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--scratch", type=Path, help="folder for the packages (default: OUT/scratch)")
    options = options.parse_args()
    scratch = (options.scratch or options.out / "scratch").resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    log = open(options.out / "log.txt", "w")

    def say(*words):
        print(*words, flush=True)
        print(*words, file=log, flush=True)

    mandoc = next((fetch("mandoc", scratch) / "usr/bin").glob("*mandoc"))
    with ThreadPoolExecutor(4) as pool:
        places = list(pool.map(lambda package: fetch(package, scratch), PACKAGES))

    documents, seen = [], set()            # (package, path, bytes)
    dropped = 0
    for package, place in zip(PACKAGES, places):
        if place is None:
            say(f"{package}: not available")
            continue
        files = [p for p in place.rglob("*") if p.is_file() and not p.is_symlink()]
        # A hash orders the files. So the cap keeps a sample of all files, and not only the first chapters.
        files.sort(key=lambda p: hashlib.sha256(str(p.relative_to(place)).encode()).digest())
        used = count = 0
        with ThreadPoolExecutor(4) as pool:
            for start in range(0, len(files), 64):
                if used >= PACKAGE_CAP:
                    break
                chunk = files[start:start + 64]
                for path, text in zip(chunk, pool.map(lambda p: text_of(p, mandoc), chunk)):
                    if not text or used >= PACKAGE_CAP:
                        continue
                    text = clean(text)[:DOCUMENT_CAP]
                    data = text.encode()
                    if len(data) < DOCUMENT_MIN or not is_english(text):
                        continue
                    runs = sampled_shingles(data)
                    if sum(r in seen for r in runs) >= DUPLICATE_SHARE * max(1, len(runs)):
                        dropped += 1
                        continue
                    seen.update(runs)
                    documents.append((package, str(path.relative_to(place)), data))
                    used += len(data)
                    count += 1
        say(f"{package}: {count} documents, {used} bytes")
    say(f"dropped as near-duplicates of earlier documents (half of their runs of {SHINGLE_WORDS} words): {dropped}")

    splits = {"train": [], "heldout": [], "development": [], "foreign": []}
    for package, path, data in documents:
        splits[split_of(package, path)].append((PACKAGES.index(package), data))
    trained = np.unique(np.concatenate([shingles(data) for _, data in splits["train"]]))
    for name in ("heldout", "development", "foreign"):
        kept = []
        for package, data in splits[name]:
            runs = shingles(data)
            at = np.minimum(np.searchsorted(trained, runs), len(trained) - 1)
            if (trained[at] == runs).mean() < LEAK_SHARE:
                kept.append((package, data))
        say(f"{name}: {len(splits[name]) - len(kept)} of {len(splits[name])} documents dropped, "
            f"{LEAK_SHARE:.0%} or more of their runs of {SHINGLE_WORDS} words occur in training text")
        splits[name] = kept
    for name, kept in splits.items():
        packages, parts = zip(*kept)
        (options.out / f"{name}.bin").write_bytes(b"".join(parts))
        np.save(options.out / f"{name}.npy", np.cumsum([0] + [len(p) for p in parts]))
        np.save(options.out / f"{name}.package.npy", np.array(packages))
        say(f"{name}: {len(parts)} documents, {sum(map(len, parts))} bytes")


if __name__ == "__main__":
    sys.exit(main())
