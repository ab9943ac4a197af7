#!/usr/bin/env python3
"""make.py FOLDER [--random N] [--seed S]: writes pictures, and the tensors that torchvision makes of them.

Writes pictures and cases.json into FOLDER. A case is a picture with a value of `image`, a key of config.json. For each
case, the script also writes the tensor (3, height, width): NAME.f32 in float32, or NAME.u8 in bytes if `image` leaves
the bytes as they are. In cases.json, "pictures" is a list of {"picture", "image", "expected"}, and "refused" is a list
of {"picture", "reason"}. The script draws all pictures from a fixed seed. It needs pillow, torch and torchvision.

The files in tests/images/ were written by `make.py tests/images` with pillow 13.0, torchvision 0.28 and torch 2.13.
With --random N, the script writes N random cases into FOLDER instead, for IMAGE_CASES=FOLDER
build/tests/unit/test_image_read."""
import argparse
import io
import json
import pathlib
import struct
import zlib

import numpy
import torchvision.transforms.functional as functional
from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms._presets import ImageClassification

BYTES = {"scale": 1, "mean": [0, 0, 0], "std": [1, 1, 1]}  # with these keys, the tensor contains the bytes themselves
FILTERS = {"bilinear": InterpolationMode.BILINEAR, "bicubic": InterpolationMode.BICUBIC}


# ---- Pictures

def draw(height, width, channels=3, seed=0):
    """Waves with noise. They are smooth enough for a JPEG, and rough enough to show a wrong weight of the resizing."""
    random = numpy.random.default_rng(seed)
    y, x = numpy.mgrid[:height, :width]
    waves = [numpy.sin(x * random.uniform(0.1, 1) + y * random.uniform(0.1, 1) + c) for c in range(channels)]
    noise = random.uniform(-0.4, 0.4, (height, width, channels))
    return (127.5 + 90 * (numpy.stack(waves, -1) + noise)).clip(0, 255).astype("uint8")


def saved(picture, kind, **options):
    out = io.BytesIO()
    picture.save(out, kind, **options)
    return out.getvalue()


def jpeg(height, width, channels=3, **options):
    pixels = draw(height, width, channels)
    return saved(Image.fromarray(pixels[..., 0] if channels == 1 else pixels), "JPEG", **options)


def chunk(name, data, wrong=0):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data) ^ wrong)


ADAM7 = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]


def rows_of(values, bits):
    """The rows of a PNG without filters, from values (height, width, channels)."""
    rows = b""
    for row in values.reshape(len(values), -1):
        if bits == 16:
            rows += b"\0" + row.astype(">u2").tobytes()
        else:
            each = (row[:, None] >> numpy.arange(bits)[::-1]) & 1
            rows += b"\0" + numpy.packbits(each.astype("uint8").ravel()).tobytes()
    return rows


def png(values, bits, colour, interlaced=False, before=b"", between=b"", palette=None):
    """A PNG of a kind that PIL cannot write. colour: 0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGBA."""
    height, width = values.shape[:2]
    parts = ADAM7 if interlaced else [(0, 0, 1, 1)]
    data = b"".join(rows_of(values[y::dy, x::dx], bits) for y, x, dy, dx in parts if values[y::dy, x::dx].size)
    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, interlaced)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + before +
            (chunk(b"PLTE", bytes(palette)) if palette is not None else b"") + between +
            chunk(b"IDAT", zlib.compress(data, 9)) + chunk(b"IEND", b""))


def levels(height, width, bits, channels=1):
    return draw(height, width, channels).astype(int) >> (8 - bits)


def colours(count):
    return numpy.random.default_rng(count).integers(0, 256, count * 3).tolist()


def pictures():
    plain = Image.fromarray(draw(23, 37))
    exif = Image.Exif()
    exif[0x112] = 6  # PIL does not apply this rotation by 90 degrees
    yield "rgb444.jpg", saved(plain, "JPEG", quality=95, subsampling="4:4:4")
    yield "rgb422.jpg", jpeg(23, 37, subsampling="4:2:2")
    yield "rgb420.jpg", jpeg(41, 29, subsampling="4:2:0", quality=60)
    yield "rgb_transform_none.jpg", saved(plain, "JPEG", keep_rgb=True)
    yield "grey.jpg", jpeg(19, 31, 1)
    yield "progressive.jpg", jpeg(33, 47, progressive=True)
    yield "progressive_grey.jpg", jpeg(20, 17, 1, progressive=True)
    yield "restarts.jpg", jpeg(40, 40, restart_marker_blocks=2)
    yield "turned.jpg", saved(plain, "JPEG", exif=exif)
    yield "tiny.jpg", jpeg(1, 1)
    yield "behind.jpg", saved(plain, "JPEG") + b"bytes behind the picture"
    yield "rgb.png", saved(plain, "PNG")
    yield "large.png", saved(Image.fromarray(draw(150, 110)).quantize(12), "PNG")
    yield "rgba.png", saved(Image.fromarray(draw(13, 21, 4)), "PNG")
    yield "rgb_transparent.png", png(draw(9, 14), 8, 2, between=chunk(b"tRNS", bytes(6)))
    for bits in 1, 2, 4, 8:
        yield f"grey{bits}.png", png(levels(11, 19, bits), bits, 0)
        yield f"palette{bits}.png", png(levels(12, 17, bits), bits, 3, palette=colours(1 << bits))
    yield "grey_alpha.png", png(draw(10, 15, 2), 8, 4)
    yield "grey_transparent.png", png(levels(10, 15, 2), 2, 0, between=chunk(b"tRNS", bytes(2)))
    yield "palette_transparent.png", png(levels(12, 17, 2), 2, 3, palette=colours(4), between=chunk(b"tRNS", b"\0\x80"))
    yield "interlaced.png", png(draw(21, 18), 8, 2, interlaced=True)
    yield "interlaced_rgba.png", png(draw(5, 3, 4), 8, 6, interlaced=True)
    yield "interlaced_grey1.png", png(levels(17, 13, 1), 1, 0, interlaced=True)
    yield "interlaced_palette4.png", png(levels(9, 30, 4), 4, 3, interlaced=True, palette=colours(16))
    yield "chunks.png", png(draw(16, 16), 8, 2, before=chunk(b"gAMA", struct.pack(">I", 30000)) +
                            chunk(b"tEXt", b"Comment\0a text") + chunk(b"zTXt", b"Comment\0\0not zlib"))
    yield "tiny.png", png(draw(1, 1), 8, 2)
    yield "wide.png", png(draw(1, 300), 8, 2)
    yield "tall.png", png(draw(260, 2), 8, 2)
    yield "behind.png", saved(plain, "PNG") + b"bytes behind the picture"


# ---- The results of torchvision

def tensor(data, image):
    """The tensor that torchvision makes with the steps that docs/serving-a-model.md describes for `image`, a key of
    config.json."""
    picture = Image.open(io.BytesIO(data)).convert("RGB")
    size = image.get("size", 224)
    size = [size, size] if isinstance(size, int) else size
    if set(image) <= {"size"} and size[0] == size[1]:
        return ImageClassification(crop_size=size[0], resize_size=round(size[0] * 256 / 224))(picture)
    resize, crop = image.get("resize", "bilinear"), image.get("crop", "center") == "center"
    if resize != "none":
        edges = image.get("resize_size", [round(max(size) * 8 / 7)]) if crop else size
        edges = [edges] if isinstance(edges, int) else edges
        picture = functional.resize(picture, edges, FILTERS[resize])
    if crop:
        picture = functional.center_crop(picture, size)
    values = functional.pil_to_tensor(picture)
    values = values.float() * image["scale"] if "scale" in image else functional.convert_image_dtype(values)
    mean, std = image.get("mean", [0.485, 0.456, 0.406]), image.get("std", [0.229, 0.224, 0.225])
    return functional.normalize(values, mean, std)


SETTINGS = [
    {"size": 14},
    {"size": [16, 11], "resize": "bicubic", "crop": "none", **BYTES},
    {"size": 13, "resize": "bilinear", "resize_size": 15, **BYTES},
]


def cases(names):
    for name in names:
        yield name, {"size": 16, **BYTES}
    for name in "rgb420.jpg", "progressive.jpg", "large.png", "rgb.png", "wide.png", "tall.png":
        for image in SETTINGS:
            yield name, image
    yield "rgb.png", {"size": [23, 37], "crop": "none", **BYTES}
    yield "rgb.png", {"size": [23, 20], "crop": "none", "resize": "bicubic", **BYTES}
    yield "rgb.png", {"size": [30, 37], "crop": "none", **BYTES}
    yield "rgb.png", {"size": [23, 37], "crop": "none", "resize": "none", **BYTES}
    yield "rgb.png", {"size": [16, 16], "resize": "none", **BYTES}
    yield "rgb.png", {"size": [30, 20], "resize": "none", **BYTES}
    yield "rgb.png", {"size": [28, 42], "resize": "none"}
    yield "rgb.png", {"size": 16, "resize_size": 12, **BYTES}
    yield "rgb.png", {"size": [9, 20], "resize_size": [14, 17], "resize": "bicubic", **BYTES}
    yield "rgb.png", {"size": [10, 18], **BYTES}
    yield "rgb.png", {"size": 12, "scale": 0.0078125, "mean": [1, 1, 1], "std": [0.5, 1, 2]}
    yield "large.png", {"size": [40, 3], "resize": "bicubic", "crop": "none", **BYTES}
    yield "grey8.png", {"size": [40, 33], "resize": "bicubic", "crop": "none", **BYTES}
    yield "palette8.png", {"size": [40, 33], "crop": "none", **BYTES}


def refused():
    picture = draw(16, 16)
    rgb = saved(Image.fromarray(picture), "PNG")
    progressive = jpeg(16, 16, progressive=True)
    scan = progressive.rindex(b"\xff\xda")
    yield "cmyk.jpg", saved(Image.fromarray(draw(8, 8, 4), "CMYK"), "JPEG"), "CMYK"
    yield "scans.jpg", progressive[:-2] + progressive[scan:-2] * 100 + b"\xff\xd9", "too many scans"
    frame = progressive.index(b"\xff\xc2")
    yield ("huge.jpg", progressive[:frame + 5] + b"\xff\xdc\xff\xdc" + progressive[frame + 9:],
           "65500 x 65500 pixels (width x height); at most 67108864")
    yield "precision.jpg", progressive[:frame + 4] + b"\x0c" + progressive[frame + 5:], "precision"
    yield "grey16.png", png(draw(8, 8, 1).astype(int) * 257, 16, 0), "16 bits"
    yield "rgb16.png", png(draw(8, 8).astype(int) * 257, 16, 2), "16 bits"
    yield "palette_short.png", png(levels(8, 8, 4), 4, 3, palette=colours(9)), "not in the palette"
    yield "checksum_header.png", rgb[:29] + b"\0\0\0\0" + rgb[33:], "CRC"
    yield "checksum_data.png", rgb[:-16] + b"\0\0\0\0" + rgb[-12:], "CRC"
    yield "checksum_text.png", png(picture, 8, 2, before=chunk(b"tEXt", b"Comment\0a text", wrong=1)), "CRC"
    header = struct.pack(">IIBBBBB", 100000, 100000, 8, 2, 0, 0, 0)
    yield ("huge.png", rgb[:8] + chunk(b"IHDR", header) + rgb[33:],
           "100000 x 100000 pixels (width x height); at most 67108864")
    yield "empty_picture.png", rgb[:8] + chunk(b"IHDR", bytes(8) + header[8:]) + rgb[33:], "IHDR"
    yield "few_rows.png", png(picture[:9], 8, 2).replace(chunk(b"IHDR", struct.pack(">IIBBBBB", 16, 9, 8, 2, 0, 0, 0)),
                                                          rgb[8:33]), "Not enough image data"
    yield "picture.gif", saved(Image.fromarray(picture), "GIF"), "neither JPEG nor PNG"


# ---- Random cases

def random_picture(random):
    height, width = (int(2 ** random.uniform(0, 8)) for _ in range(2))
    seed, kind = int(random.integers(1 << 30)), int(random.integers(6))
    pixels = draw(height, width, 3, seed)
    if kind == 0:
        return "png", saved(Image.fromarray(pixels), "PNG")
    if kind == 1:
        return "png", png(draw(height, width, 4, seed), 8, 6, interlaced=bool(random.integers(2)))
    if kind == 2:
        bits = 1 << int(random.integers(4))
        return "png", png(levels(height, width, bits), bits, 0, interlaced=bool(random.integers(2)))
    options = {"quality": int(random.integers(5, 100)), "progressive": bool(random.integers(2)),
               "optimize": bool(random.integers(2)), "subsampling": int(random.integers(3))}
    return "jpg", saved(Image.fromarray(pixels[..., 0] if kind == 3 else pixels), "JPEG", **options)


def random_settings(random):
    def edge():
        return int(2 ** random.uniform(0, 7))
    image = {"size": edge() if random.integers(2) else [edge(), edge()]}
    if random.integers(2):
        image["resize"] = str(random.choice(["bilinear", "bicubic"]))
    if random.integers(3) == 0:
        image["crop"] = "none"
    elif random.integers(2):
        image["resize_size"] = edge() if random.integers(2) else [edge(), edge()]
    elif random.integers(5) == 0:
        image["resize"] = "none"
    return image | (BYTES if random.integers(4) else {})


# ---- Files

def write_case(folder, listed, name, data, image):
    bytes_only = image.items() >= BYTES.items()
    expected = f"{pathlib.Path(name).stem}_{len(listed)}.{'u8' if bytes_only else 'f32'}"
    values = tensor(data, image).contiguous().numpy().astype("u1" if bytes_only else "<f4")
    (folder / expected).write_bytes(values.tobytes())
    listed.append({"picture": name, "image": image, "expected": expected})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    folder, listed, not_read = arguments.folder, [], []
    folder.mkdir(parents=True, exist_ok=True)
    random = numpy.random.default_rng(arguments.seed)
    for i in range(arguments.random):
        kind, data = random_picture(random)
        name = f"random_{i}.{kind}"
        (folder / name).write_bytes(data)
        write_case(folder, listed, name, data, random_settings(random))
    if not arguments.random:
        files = dict(pictures())
        for name, data in files.items():
            (folder / name).write_bytes(data)
        for name, image in cases(files):
            write_case(folder, listed, name, files[name], image)
        for name, data, reason in refused():
            (folder / name).write_bytes(data)
            not_read.append({"picture": name, "reason": reason})
    lines = [",\n".join(" " + json.dumps(entry) for entry in entries) for entries in (listed, not_read)]
    (folder / "cases.json").write_text('{"pictures": [\n%s\n], "refused": [\n%s\n]}\n' % tuple(lines))


if __name__ == "__main__":
    main()
