"""The small closed vocabulary of the generated briefs: a 1-2 M-parameter policy must be able to copy any of it."""

from __future__ import annotations

from random import Random

# fmt: off
TITLES = (
    "Garden", "Kitchen", "Travel", "Music", "Sport", "School", "Market", "Office", "Harbor", "Museum",
    "Library", "Studio", "Weather", "Cinema", "Bakery", "Orchard", "Camping", "Cycling", "Hiking", "Sailing",
    "Painting", "Reading", "Cooking", "Budget", "Journal", "Planner", "Party", "Picnic", "Holiday", "Weekend",
    "Morning", "Evening", "Summer", "Winter", "Autumn", "Spring", "Pantry", "Attic", "Garage", "Balcony",
)
# fmt: on

THEMES = (
    ("Apple", "Pear", "Plum", "Grape", "Lemon", "Melon"),
    ("Bread", "Milk", "Butter", "Cheese", "Rice", "Pasta"),
    ("Red", "Blue", "Green", "Yellow", "Orange", "Purple"),
    ("Tiger", "Zebra", "Otter", "Falcon", "Turtle", "Rabbit"),
    ("Violin", "Piano", "Drums", "Flute", "Guitar", "Trumpet"),
    ("Paris", "Rome", "Tokyo", "Lima", "Oslo", "Cairo"),
    ("Tent", "Rope", "Lamp", "Map", "Stove", "Knife"),
    ("Tennis", "Soccer", "Rugby", "Hockey", "Rowing", "Boxing"),
    ("Rose", "Tulip", "Daisy", "Lily", "Orchid", "Poppy"),
    ("Paint", "Brush", "Canvas", "Pencil", "Paper", "Clay"),
    ("Mercury", "Venus", "Earth", "Mars", "Saturn", "Neptune"),
    ("Coffee", "Tea", "Juice", "Water", "Soda", "Cocoa"),
)

PEOPLE = ("Ada", "Ben", "Cleo", "Dora", "Emil", "Finn", "Greta", "Hugo", "Iris", "Jonas", "Kira", "Leo")
ROLES = ("Baker", "Pilot", "Nurse", "Farmer", "Painter", "Teacher", "Driver", "Singer")
FIELDS = ("name", "email", "city", "phone", "team", "color")
PAIRS = (("Open", "Closed"), ("On", "Off"), ("Day", "Night"), ("Loud", "Quiet"), ("Full", "Empty"), ("Warm", "Cold"))
UNITS = (("Meters", "Feet"), ("Hours", "Minutes"), ("Weeks", "Days"), ("Dozens", "Eggs"), ("Liters", "Cups"))


def items(rng: Random, count: int) -> tuple[str, ...]:
    """`count` distinct words of one theme, in random order."""
    return tuple(rng.sample(rng.choice(THEMES), count))


def listed(words: tuple[str, ...]) -> str:
    """`("Red", "Blue", "Green")` as `Red, Blue and Green`."""
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]
