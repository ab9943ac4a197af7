"""Draws heads of cats and dogs with ears, eyes, a nose, a mouth and fur, on a background. No two pictures are alike.

    python3 drawings.py FOLDER [COUNT [SEED]]     writes cat0.png, dog1.png, cat2.jpg …, 256 pixels wide

Both kinds have any colour, size, place, tilt, fur and background. They differ as the animals do. A cat has pointed,
upright ears, a short face, a small nose and whiskers. A dog has ears that hang beside the head, a long muzzle, a large
nose, and sometimes a tongue."""

import math
import pathlib
import random
import sys

from PIL import Image, ImageDraw

SIDE = 64  # pixels
FINE = 4  # pixels of the drawing, in each direction, for each pixel of the picture
LABELS = ["cat", "dog"]


class Sheet:
    """Draws in coordinates of the head: its centre is (0, 0), its radius is 1, and y grows downwards."""

    def __init__(self, chance, image):
        self.draw = ImageDraw.Draw(image)
        self.size = chance.uniform(0.20, 0.29) * image.width
        self.centre = [image.width * chance.uniform(0.42, 0.58), image.height * chance.uniform(0.42, 0.58)]
        self.tilt = chance.uniform(-0.35, 0.35)

    def place(self, x, y):
        sin, cos = math.sin(self.tilt), math.cos(self.tilt)
        return (self.centre[0] + self.size * (x * cos - y * sin), self.centre[1] + self.size * (x * sin + y * cos))

    def polygon(self, points, colour):
        self.draw.polygon([self.place(x, y) for x, y in points], fill=colour)

    def ellipse(self, x, y, width, height, colour, turn=0.0):
        corners = [(math.cos(a / 16 * math.pi) * width, math.sin(a / 16 * math.pi) * height) for a in range(32)]
        sin, cos = math.sin(turn), math.cos(turn)
        self.polygon([(x + u * cos - v * sin, y + u * sin + v * cos) for u, v in corners], colour)

    def line(self, points, colour, width):
        self.draw.line([self.place(x, y) for x, y in points], fill=colour, width=max(1, round(width * self.size)))


def colour_near(chance, colour, distance):
    return tuple(max(0, min(255, part + chance.randint(-distance, distance))) for part in colour)


def any_colour(chance):
    return tuple(chance.randint(0, 255) for _ in range(3))


def draw_background(chance, image):
    draw, colour, other = ImageDraw.Draw(image), any_colour(chance), any_colour(chance)
    for y in range(image.height):
        share = y / image.height
        draw.line([(0, y), (image.width, y)], fill=tuple(round(a + (b - a) * share) for a, b in zip(colour, other)))
    for _ in range(chance.randint(0, 6)):
        x, y, size = chance.randint(0, image.width), chance.randint(0, image.height), chance.randint(8, 60)
        shape = chance.choice([draw.ellipse, draw.rectangle])
        shape([x - size, y - size, x + size, y + size], fill=any_colour(chance))


def draw_fur(chance, sheet, fur):
    for _ in range(chance.randint(0, 60)):
        angle, distance = chance.uniform(0, 2 * math.pi), math.sqrt(chance.random())
        x, y = math.cos(angle) * distance, math.sin(angle) * distance * 0.9
        sheet.line([(x, y), (x * 1.1, y * 1.1 + 0.06)], colour_near(chance, fur, 50), 0.03)
    if chance.random() < 0.3:  # a patch around an eye
        sheet.ellipse(chance.choice([-0.4, 0.4]), -0.15, 0.35, 0.4, colour_near(chance, fur, 110))


def draw_eyes(chance, sheet):
    apart, size, height = chance.uniform(0.32, 0.46), chance.uniform(0.10, 0.19), chance.uniform(-0.3, -0.1)
    white, iris = colour_near(chance, (235, 235, 225), 20), any_colour(chance)
    for side in (-1, 1):
        sheet.ellipse(side * apart, height, size, size * chance.uniform(0.8, 1.0), white)
        sheet.ellipse(side * apart, height, size * 0.75, size * 0.75, iris)
        sheet.ellipse(side * apart, height, size * 0.4, size * 0.5, (10, 10, 10))


def draw_cat(chance, sheet, fur):
    width, height = chance.uniform(0.28, 0.42), chance.uniform(0.6, 0.95)
    inner = colour_near(chance, (220, 150, 150), 40)
    for side in (-1, 1):
        middle = side * chance.uniform(0.55, 0.7)
        tip = (middle + side * chance.uniform(-0.05, 0.2), -0.65 - height)
        sheet.polygon([(middle - width, -0.6), tip, (middle + width, -0.5)], fur)
        sheet.polygon([(middle - width / 2, -0.7), (tip[0], tip[1] + 0.25), (middle + width / 2, -0.65)], inner)
    sheet.ellipse(0, 0, 1, chance.uniform(0.82, 0.95), fur)
    draw_fur(chance, sheet, fur)
    draw_eyes(chance, sheet)
    nose = colour_near(chance, (200, 110, 120), 60)
    sheet.polygon([(-0.12, 0.2), (0.12, 0.2), (0, 0.34)], nose)
    dark = colour_near(chance, (60, 45, 45), 30)
    for side in (-1, 1):
        sheet.line([(0, 0.34), (side * 0.1, 0.45), (side * 0.22, 0.4)], dark, 0.05)
        for _ in range(chance.randint(2, 3)):
            sheet.line([(side * 0.25, 0.35), (side * chance.uniform(0.9, 1.3), chance.uniform(0.15, 0.6))], dark, 0.03)


def draw_dog(chance, sheet, fur):
    ears = colour_near(chance, fur, 60)
    length, turn = chance.uniform(0.55, 0.85), chance.uniform(0.0, 0.45)
    sheet.ellipse(0, 0, chance.uniform(0.85, 1.0), chance.uniform(0.9, 1.0), fur)
    draw_fur(chance, sheet, fur)
    for side in (-1, 1):
        sheet.ellipse(side * chance.uniform(0.85, 1.0), 0.05, chance.uniform(0.24, 0.34), length, ears, -side * turn)
    draw_eyes(chance, sheet)
    muzzle, low = colour_near(chance, fur, 70), chance.uniform(0.45, 0.6)
    sheet.ellipse(0, low, chance.uniform(0.4, 0.5), chance.uniform(0.42, 0.55), muzzle)
    sheet.ellipse(0, low - 0.22, chance.uniform(0.18, 0.26), 0.15, colour_near(chance, (35, 30, 30), 25))
    dark = colour_near(chance, (60, 45, 45), 30)
    if chance.random() < 0.4:
        sheet.ellipse(0, low + 0.4, 0.16, chance.uniform(0.2, 0.3), colour_near(chance, (220, 90, 110), 25))
    sheet.line([(0, low - 0.1), (0, low + 0.15)], dark, 0.05)
    sheet.line([(-0.25, low + 0.18), (0, low + 0.15), (0.25, low + 0.18)], dark, 0.05)


def draw(label, seed, side=SIDE):
    """A picture of a "cat" or a "dog", at most 256 pixels wide. Each seed gives another picture."""
    chance = random.Random(f"{label} {seed}")
    image = Image.new("RGB", (SIDE * FINE, SIDE * FINE))
    draw_background(chance, image)
    sheet, fur = Sheet(chance, image), any_colour(chance)
    if chance.random() < 0.5:  # a body
        sheet.ellipse(chance.uniform(-0.4, 0.4), 2.1, 1.1, 1.5, fur)
    (draw_cat if label == "cat" else draw_dog)(chance, sheet, fur)
    return image.resize((side, side), Image.LANCZOS)


def main():
    folder, count, seed = pathlib.Path(sys.argv[1]), int((sys.argv + [10])[2]), int((sys.argv + [0, 0])[3])
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(count):
        label = LABELS[i % 2]
        draw(label, seed + i, SIDE * FINE).save(folder / f"{label}{i}.{['png', 'jpg'][i // 2 % 2]}")


if __name__ == "__main__":
    main()
