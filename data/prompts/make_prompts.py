#!/usr/bin/env python3
"""Writes train.jsonl and heldout.jsonl: prompts as people ask them of a chat model.

Everything here is our own writing; templates are filled from our own lists. Plain Python 3, no packages, the same
output on every machine (own shuffle, fixed seed). Near-duplicates are refused, and so is a held-out prompt that is
close to a training prompt. Run it in this folder after a change:  python3 make_prompts.py
"""
import hashlib
import json
import os
import re
import sys

SEED = 20260101
NEAR_DUPLICATE = 0.5   # Jaccard similarity of word trigrams
LEAK = 0.25            # the same between a held-out and any training prompt


class Random:
    """splitmix64, so that the order does not hang on a Python version."""

    def __init__(self, seed):
        self.state = seed & (2**64 - 1)

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & (2**64 - 1)
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
        return z ^ (z >> 31)

    def below(self, bound):
        return self.next() % bound

    def between(self, low, high):
        return low + self.below(high - low + 1)

    def pick(self, values):
        return values[self.below(len(values))]

    def shuffle(self, values):
        for i in range(len(values) - 1, 0, -1):
            j = self.below(i + 1)
            values[i], values[j] = values[j], values[i]


def lines(text):
    return [line.strip() for line in text.strip().splitlines() if line.strip()]


def rows(text):
    return [[part.strip() for part in line.split("|")] for line in lines(text)]


def paragraphs(text):
    return [" ".join(block.split()) for block in text.strip().split("\n\n") if block.strip()]


def blocks(text):
    return [block.strip("\n") for block in text.strip("\n").split("\n---\n")]


def spread(values, templates):
    """Each value once, the templates in turn: a list of wordings, of which the first that is new will be taken."""
    return [[templates[(i + k) % len(templates)].format(value) for k in range(len(templates))]
            for i, value in enumerate(values)]


# ------------------------------------------------------------------------------------------------ questions

WHY = lines("""
Why is the sky blue during the day but red at sunset?
Why do onions make us cry when we cut them?
Why does ice float on water?
Why do we yawn, and why is it contagious?
Why do leaves change colour in autumn?
Why does metal feel colder than wood at the same temperature?
Why do cats purr?
Why is the ocean salty when rivers are not?
Why do we have leap years?
Why can't we tickle ourselves?
Why does bread rise?
Why do stars twinkle but planets mostly don't?
Why does thunder come after lightning?
Why do our fingers wrinkle in water?
Why does the moon always show us the same face?
Why do some people sneeze when they look at the sun?
Why are flamingos pink?
Why does hot water sometimes seem to freeze faster than cold water?
Why do airplanes leave white trails behind them?
Why do we dream?
Why does a spinning top stay upright?
Why is glass transparent?
Why does popcorn pop?
Why do golf balls have dimples?
Why do mosquitoes bite some people more than others?
Why do we get goosebumps?
Why does soap clean better than plain water?
Why is it colder at the top of a mountain although it is closer to the sun?
Why do old books smell the way they do?
Why do mirrors seem to swap left and right but not up and down?
Why do phone batteries lose capacity over the years?
Why is yawning so hard to suppress in a boring meeting?
Why do most keyboards use the QWERTY layout?
Why do some countries drive on the left?
Why was the printing press so important for science?
Why did the Roman Empire split into two halves?
Why do bees dance?
Why does a boat made of steel float while a steel nail sinks?
Why does the day have 24 hours and not 10 or 100?
Why do prices usually rise over time rather than fall?
Why does chocolate turn white when it gets old?
Why do dogs tilt their heads when we talk to them?
Why does wet sand look darker than dry sand?
Why do we need sleep at all?
Why does asphalt get so hot in summer?
Why are manhole covers usually round?
Why are there so many different programming languages?
Why do wind turbines usually have three blades?
Why does my voice sound strange in recordings?
Why are there time zones, and who decided on them?
""")

MECHANISMS = lines("""
a refrigerator
the human eye
GPS navigation
a microwave oven
a suspension bridge
noise-cancelling headphones
a vaccine
the stock market
a four-stroke engine
public-key encryption
a solar panel
an elevator's safety brake
a touch screen
the water cycle
a nuclear reactor
a sewing machine
an electric guitar pickup
a barcode scanner
photosynthesis
a mechanical watch
the immune system
an induction cooktop
a hot air balloon
rain radar
a lithium-ion battery
a search engine
a violin
the kidney
a credit card payment
a hydraulic lift
a 3D printer
a thermos flask
the greenhouse effect
a fire extinguisher
digital photography
a toilet flush
wireless charging
a piano
the domain name system
echolocation in bats
a lie detector
a heat pump
hearing
a jet engine
an MRI scanner
a zip fastener
the electoral college
a canal lock
memory foam
fermentation
a compass
a quartz clock
a recommendation system in a music app
a ballpoint pen
the blood clotting process
a pressure cooker
optical fibre
a smoke detector
video compression
a parachute
""")

MECHANISM_TEMPLATES = [
    "How does {} work?",
    "Can you explain in simple terms how {} works?",
    "I'm curious about {}. What happens step by step?",
    "Describe the working principle of {} in about five sentences.",
    "How would you explain {} to a ten-year-old?",
    "What are the main parts involved in {}, and what does each one do?",
    "Give me a short but accurate explanation of {}.",
]

CONCEPTS = lines("""
inflation
natural selection
supply and demand
entropy
machine learning
the placebo effect
plate tectonics
compound interest
confirmation bias
a black hole
democracy
opportunity cost
quantum entanglement
the theory of relativity
herd immunity
game theory
biodiversity
cognitive dissonance
the Doppler effect
gross domestic product
osmosis
a blockchain
irony
standard deviation
the carbon cycle
recursion
habeas corpus
the butterfly effect
a mutual fund
symbiosis
dark matter
the bystander effect
an algorithm
stoicism
surface tension
Occam's razor
the tragedy of the commons
a neural network
minimalism in art
a catalyst
the separation of powers
epigenetics
a feedback loop
the sunk cost fallacy
the Turing test
hyperbole
a prime number
microeconomics
the speed of sound
an ecosystem
existentialism
net neutrality
the golden ratio
momentum
open-source software
a recession
half-life
jet lag
the multiplier effect
a metaphor
""")

CONCEPT_TEMPLATES = [
    "What is {}?",
    "Explain {} as if I were new to the subject.",
    "Where do I meet {} in everyday life?",
    "Give a clear definition of {} and one concrete example.",
    "I keep hearing about {} but never really understood it. Can you help?",
    "What is a common misunderstanding about {}?",
    "Teach me the basics of {} in under 150 words.",
    "Why does {} matter?",
]

CONCEPTS_AGAIN = lines("""
Give me a real example of inflation and what caused it.
How is natural selection different from evolution in general?
Walk me through a simple supply and demand graph using coffee as the product.
If I put 100 dollars in a savings account, how exactly does compound interest make it grow?
How could I notice my own confirmation bias when I read the news?
What would happen to an astronaut who falls into a black hole?
Could you describe an experiment that shows the placebo effect?
How do scientists know that plates under the continents are moving?
Which everyday decisions involve an opportunity cost?
What is the difference between a neural network and a human brain?
In what way is a blockchain different from an ordinary database?
What are two arguments for and two arguments against net neutrality?
How did people measure the speed of sound before electronics?
Can a recession be predicted? What signs do economists look at?
What are some good analogies for understanding entropy?
How do stoics deal with anger?
How is carbon dating related to half-life?
What's the best way to recover from jet lag after a long flight east?
""")

PEOPLE = lines("""
Marie Curie
Leonardo da Vinci
Ada Lovelace
Alan Turing
Cleopatra
Charles Darwin
Nelson Mandela
Ludwig van Beethoven
Florence Nightingale
Isaac Newton
Genghis Khan
Rosa Parks
William Shakespeare
Nikola Tesla
Frida Kahlo
Galileo Galilei
Johannes Gutenberg
Grace Hopper
Confucius
Simón Bolívar
Rosalind Franklin
Marco Polo
Alexander Fleming
Katherine Johnson
Vincent van Gogh
Louis Pasteur
""")

PEOPLE_TEMPLATES = [
    "Who was {} and what is this person known for?",
    "Write a short biography of {} in five sentences.",
    "What can we learn from the life of {}?",
    "Name three achievements of {} and explain one of them in detail.",
    "What obstacles did {} have to overcome?",
]

HISTORY = lines("""
What caused the First World War?
How did the Industrial Revolution change daily life in the cities?
What was the Silk Road, and what was traded on it?
Why did the Berlin Wall fall in 1989?
What was the purpose of the Great Wall of China?
How did people in ancient Egypt build the pyramids, as far as we know?
What were the main results of the French Revolution?
Summarize the space race in one paragraph.
How did the Black Death change Europe?
What was the Renaissance and where did it begin?
Who were the Vikings, and how far did they travel?
What did the Treaty of Versailles say?
How did writing begin?
What was life like for a medieval peasant?
When and why was the United Nations founded?
What happened at the Battle of Waterloo?
How did the potato change European history?
What was the Cold War about?
How was the Panama Canal built and why did it take so long?
What is the Rosetta Stone and why was it so useful?
How did coffee spread around the world?
What did the Suez crisis mean for Britain and France?
What led to the fall of the Aztec Empire?
How did the telegraph change the way news travelled?
What role did salt play in the ancient economy?
Explain the importance of the Magna Carta.
""")

FACTS = lines("""
How many bones does an adult human have, and why do babies have more?
Which planet in our solar system has the most moons?
What is the longest river in the world, and why do people disagree about it?
What are the three states of matter most people learn at school, and is there a fourth?
How far away is the sun, and how long does its light need to reach us?
What language has the most native speakers?
Which gases make up the air we breathe?
What is the difference between a country's capital and its largest city? Give three examples where they differ.
How long can a camel go without water?
What's the tallest mountain on Earth if you measure from the base?
How many time zones does Russia have?
What do the colours on litmus paper mean?
Which vitamins does the human body make by itself?
What is the boiling point of water at high altitude, roughly?
What are the main ingredients of concrete?
Which animals can live longer than 150 years?
How fast does the Earth rotate at the equator?
What is the smallest country in the world and how does it work?
Do fish sleep?
Which instruments belong to a string quartet?
What does the pH scale measure?
Can you name the layers of the Earth from the outside to the centre?
What is the most abundant element in the universe?
How does the Fahrenheit scale relate to Celsius?
Are tomatoes fruits or vegetables?
Is it true that we only use ten percent of our brain?
Do goldfish really have a three-second memory?
Is lightning really unable to strike the same place twice?
Does cracking your knuckles cause arthritis?
Is it dangerous to wake a sleepwalker?
""")

COMPARE = rows("""
a virus|a bacterium
weather|climate
a debit card|a credit card
a simile|a metaphor
RAM|disk storage
crocodiles|alligators
baking soda|baking powder
a comet|an asteroid
HTTP|HTTPS
socialism|communism
a fruit|a vegetable
jam|marmalade
renting|buying a home
TCP|UDP
an employee|a freelancer
empathy|sympathy
mean|median
butter|margarine
a lawyer|a notary
nuclear fission|nuclear fusion
kilometres|nautical miles
espresso|filter coffee
a compiler|an interpreter
DNA|RNA
a hurricane|a tornado
a violin|a viola
stocks|bonds
fog|mist
solid-state drives|hard disks
speed|velocity
copyright|a patent
a turtle|a tortoise
aerobic|anaerobic exercise
affect|effect
vegan|vegetarian diets
an electric car|a hybrid car
analog|digital signals
a king|an emperor
a bull market|a bear market
git merge|git rebase
a process|a thread
a lake|a reservoir
white rice|brown rice
an opera|a musical
leadership|management
""")

COMPARE_TEMPLATES = [
    "What is the difference between {0} and {1}?",
    "Compare {0} with {1} in a small table.",
    "{0} or {1}: how do I tell them apart?",
    "When people say {0}, do they mean the same as {1}? Explain.",
    "List two things that {0} and {1} have in common and two that set them apart.",
]

DEFINE = lines("""
serendipity
ubiquitous
pragmatic
ephemeral
resilience
ambiguous
meticulous
nostalgia
to procrastinate
candid
eloquent
altruism
tedious
gullible
a paradox
ambivalent
diligent
to mitigate
a euphemism
verbose
plausible
an anachronism
frugal
to scrutinize
benevolent
redundant
skeptical
a dilemma
tangible
melancholy
to improvise
arbitrary
consensus
a loophole
stamina
versatile
""")

DEFINE_TEMPLATES = [
    'What does "{}" mean? Use it in a sentence.',
    'Define "{}" and give two synonyms.',
    'I saw the word "{}" in an article. Can you explain it simply?',
    'Use "{}" in three different sentences.',
    'What is the opposite of "{}"?',
]

# ------------------------------------------------------------------------------------------------ everyday

HOWTO = lines("""
remove a red wine stain from a carpet
boil an egg so that the yolk stays soft
change a flat bicycle tyre
write a cover letter for my first job
learn the guitar without a teacher
save money on a small income
clean a cast-iron pan
fall asleep faster
repot a houseplant
prepare for a job interview
remember people's names
set up a home network
sharpen a kitchen knife
start a vegetable garden on a balcony
tie a bow tie
pack a suitcase for a week with hand luggage only
train for a five-kilometre run
make cold brew coffee
back up the photos on my phone
train a puppy to stay off the sofa
unclog a kitchen sink without chemicals
read more books in a year
make a paper plane that flies far
negotiate a better salary
cook rice without it sticking
give a good wedding toast
choose a strong password I can remember
stop biting my nails
descale an electric kettle
plan a surprise party
take better photos with a phone
study for an exam in three days
iron a shirt quickly
find out whether an avocado is ripe
organize a messy closet
make friends in a new city
patch a hole in drywall
keep basil alive in the kitchen
lower my electricity bill
fold a fitted sheet
teach a child to ride a bike
write a polite complaint to a landlord
get chewing gum out of hair
speak in public without trembling
season a soup that tastes flat
protect my laptop from viruses
grow tomatoes from seed
get rid of fruit flies
learn twenty new words of a foreign language every week
break in new leather shoes
make pizza dough from scratch
ask someone for feedback at work
calm down before a flight
store potatoes so that they last
wash a wool sweater
set a realistic budget
hang a heavy picture on a plaster wall
be on time in the morning
cut down on sugar
jump-start a car
""")

HOWTO_TEMPLATES = [
    "How do I {}?",
    "What is the best way to {}?",
    "Give me step-by-step instructions: I want to {}.",
    "I've never done this before. How can I {}?",
    "Can you give me five practical tips to {}?",
    "What mistakes should I avoid when I try to {}?",
    "Explain briefly how to {}, and what I need for it.",
]

ADVICE = lines("""
My roommate never does the dishes. How can I bring it up without starting a fight?
I have two job offers: one pays more, the other seems more interesting. How should I decide?
I'm 35 and want to switch careers to nursing. Is it too late?
My best friend forgot my birthday and I feel hurt. Should I say something?
I always start new hobbies and drop them after two weeks. What can I do?
My neighbour plays loud music at night. What would be a reasonable first step?
How can I support a colleague whose father just died?
I feel nervous about moving abroad alone. Any advice?
My ten-year-old wants a smartphone. What should I consider?
I said something rude in a meeting. How do I apologize?
I work from home and can't separate work from free time. What helps?
How do I tell my boss that my workload is too high?
I want to get fit but hate gyms. What are my options?
My cat wakes me at four every morning. What can I do?
I'm shy. How do I start a conversation at a party?
Should I lend money to a friend who has not paid me back before?
What should I bring as a gift when I'm invited to dinner by people I barely know?
I keep comparing myself with others on social media. How can I stop?
Is it better to study in the morning or at night?
We are expecting our first child. What should we prepare in the last month?
My team keeps missing deadlines. I'm the new lead. Where do I start?
How much should I save for emergencies before I start investing?
I got a bad grade although I studied hard. What now?
My grandmother wants to learn how to use video calls. How do I teach her patiently?
What would be a good first musical instrument for an adult with little time?
I can't decide whether to get a dog. What questions should I ask myself?
How do I say no to invitations without hurting people?
I've been offered a promotion, but I would have to manage my friends. What should I think about?
How can I be more confident when I speak English on the phone?
My internet connection drops every evening. What should I check first?
I'd like to reduce plastic waste at home. What are the three changes with the largest effect?
What can I cook for a guest who eats neither meat nor gluten?
I forgot an important appointment with a client. What should I write?
How do I keep motivated while learning to program by myself?
My son is afraid of the dark. What can we do at bedtime?
What should I look at when buying a used car?
Our book club needs fresh air. How can we make the evenings more lively?
I'm travelling to Japan for the first time. Which customs should I know?
How can I make my small bedroom feel bigger?
I drink five cups of coffee a day. Should I worry?
""")

PLANS = lines("""
Plan a relaxed weekend in Lisbon for two people who like food and walking.
Make a three-day workout plan without equipment for a beginner.
Create a weekly study schedule for someone who works full time and learns Spanish.
Plan a birthday party for a six-year-old who loves dinosaurs.
Suggest a vegetarian dinner menu for six guests with a starter, a main course and a dessert.
Design a simple morning routine that takes thirty minutes.
Put together a packing list for a camping trip in rainy weather.
Draft an agenda for a one-hour meeting about a late project.
Make a cleaning plan for a shared flat with four people.
Plan one rainy Sunday at home with two small children.
Outline a ten-minute talk about recycling for a school class.
Suggest a reading list of five classic novels for a reluctant reader, with one sentence each.
Create a budget for a student with 900 euros a month.
Give me a meal plan for three days with chickpeas, rice, eggs and seasonal vegetables.
Plan a road trip of five days along a coast, with about three hours of driving a day.
Write a training plan for someone who wants to swim one kilometre without a break.
Draft a plan for learning the basics of statistics in four weeks.
I have two hours before guests arrive and the flat is a mess. In which order should I clean?
Set up a checklist for moving out of a rented apartment.
Outline a small science project about plants for a twelve-year-old.
Make a timeline for organizing a neighbourhood flea market in two months.
Plan a no-spend weekend for a young couple in a big city.
""")

# ------------------------------------------------------------------------------------------------ lists

LISTS = lines("""
healthy snacks I can prepare the evening before
reasons to learn a second language
names for a small bakery
ways to reuse glass jars
questions to ask at the end of a job interview
cheap date ideas for winter
board games that work well with two players
animals that are active at night
inventions from the twentieth century that changed everyday life
exercises that strengthen the back
topics for small talk with a taxi driver
warm-up games for a theatre class
rivers in Europe and a city on each
things to check before a long car trip
words that rhyme with "light"
ways to say thank you in an e-mail
plants that need little light
common logical fallacies, with one line each
traditional breakfast dishes from different countries
icebreaker questions for an online meeting
jobs that did not exist thirty years ago
indoor activities for a rainy school holiday
famous paintings and their painters
ways to save water in a household
titles for a blog about hiking with children
items for a basic first-aid kit
renewable sources of energy with one advantage each
podcast ideas about local history
small habits that make a working day less stressful
spices every kitchen should have
arguments for wearing school uniforms
arguments against homework
gift ideas for a retired teacher
songs or styles to play at a calm dinner
side effects of too much screen time
countries that lie on the equator
mistakes people make in their first apartment
features a good note-taking app should have
ways to greet someone formally and informally
questions a doctor might ask about a headache
adjectives to describe an old house
themes for a photo series taken within one street
events in history that happened in July
steps a company can take to waste less paper
synonyms for "important"
simple chemistry experiments with kitchen supplies
possible causes of a car that does not start
team-building activities without alcohol
safety rules for a school laboratory
team names for a quiz night
metaphors for time
things that would surprise a visitor from the year 1900
fruits that are botanically berries
""")

LIST_TEMPLATES = [
    "List ten {}.",
    "Give me five {}.",
    "What are some {}?",
    "I need a bulleted list of {}, please.",
    "Can you brainstorm a few {}?",
    "Name seven {}, each with a short comment.",
]

# ------------------------------------------------------------------------------------------------ writing

POEMS = lines("""
the first snow of the year
an old fishing boat
a train station at midnight
waiting for a letter
my grandmother's kitchen
the smell of rain on dry earth
a broken clock
the last day of summer
two sparrows on a wire
a city waking up
a forgotten umbrella
learning to swim
the silence after a concert
a candle in a window
moving to another town
a stubborn goat
the inside of a pocket
the sea in winter
""")

POEM_TEMPLATES = [
    "Write a short poem about {}.",
    "Write a haiku about {}.",
    "Compose four rhyming lines about {}.",
    "Write a limerick about {}.",
    "Write a poem without rhymes about {}. Keep it under twelve lines.",
]

STORIES = lines("""
a lighthouse keeper who finds a message in a bottle
a robot that is afraid of the dark
a girl who can talk to trees but not to people
two rival bakers who have to share one oven
a detective who solves crimes by smell
an astronaut who misses the last shuttle home
a librarian who discovers a book without an ending
a boy who finds a door at the back of his wardrobe
a taxi driver whose passenger never says where to go
a town where nobody can lie for one day
an old chess player and a nine-year-old challenger
a cat that secretly runs a hotel
a violin that remembers all its owners
a postman who delivers letters to the wrong century
a gardener who grows clocks
a dragon that only wants to learn to cook
a submarine crew that hears music in the deep
twins who swap places at school
a street musician who becomes invisible when he plays
a snowman who survives until spring
a thief who steals only worthless things
a scientist whose time machine goes forward by one minute only
a shepherd who counts stars instead of sheep
a bridge that people are afraid to cross
""")

STORY_TEMPLATES = [
    "Write a short story about {}.",
    "Write the opening paragraph of a story about {}.",
    "Tell me a bedtime story about {}.",
    "Write a story of about 150 words about {}, with a surprising end.",
    "Sketch the plot of a short film about {} in six sentences.",
]

DIALOGUES = rows("""
a customer|a waiter|a soup that is far too salty
a teacher|a pupil|homework that the dog has eaten
a tourist|a local|the way to the old harbour
a doctor|a patient|giving up smoking
two neighbours|each other|a tree that drops leaves on both sides
a mechanic|a driver|a strange noise under the car
a grandfather|his granddaughter|what the world looked like without the internet
a manager|an employee|working four days a week
a shop assistant|a customer|returning a pair of shoes without a receipt
a captain|a young sailor|an approaching storm
the sun|the moon|who works harder
a pen|a keyboard|the future of writing
a chess coach|a beginner|why losing is useful
a landlord|a tenant|a broken heating in January
a librarian|a child|choosing a first novel
an alien|a farmer|cows
a barista|a regular customer|the price of coffee
a train conductor|a passenger|a ticket for the wrong day
a nutritionist|a teenager|breakfast
a programmer|a rubber duck|a bug that appears only on Fridays
a host|a guest|a vase that has just been broken
two old friends|one another|meeting again after twenty years
a pharmacist|a customer|side effects of a cold medicine
an umbrella|a pair of sunglasses|the weather forecast
a job applicant|an interviewer|a gap in the CV
""")

DIALOGUE_TEMPLATES = [
    "Write a short dialogue between {0} and {1} about {2}.",
    "Write a conversation of about eight lines: {0} talks with {1} about {2}.",
    "Invent a funny dialogue between {0} and {1}. The subject: {2}.",
    "Script a short scene in which {0} and {1} discuss {2}.",
]

EMAILS = lines("""
my landlord|the washing machine in the basement is broken
a professor|I need an extension of two days for my essay
a customer|their order will arrive a week late
my team|we are moving the Monday meeting to Tuesday at ten
a hotel|I would like to change my booking from a single to a double room
a former colleague|I would like a reference
my child's school|my daughter has the flu and stays at home
a supplier|the last delivery was missing two boxes
a neighbour|our renovation will be noisy for three days
the library|I was charged a late fee by mistake
a hiring manager|I want to thank her for yesterday's interview
the gym|I want to cancel my membership
a friend|I cannot come to his wedding
a conference organizer|I would like to give a talk about urban gardening
the building management|the light in the stairwell has been broken for two weeks
an airline|my suitcase did not arrive
my manager|I would like to take two weeks of vacation in August
a volunteer group|I would like to help on weekends
a client|the project costs more than planned, and why
a landlord of a holiday flat|I want to ask whether dogs are allowed
all employees|the office will be closed on Friday for maintenance
my insurance company|a pipe burst and damaged the floor
a newspaper editor|I would like to comment on an article about cyclists
an old teacher|I want to tell her that she changed my life
a band|I would like to hire them for a street party
a bank|there is a payment on my account that I do not recognize
the town council|a crossing near the school is dangerous
a restaurant|I left my scarf there last night
a mentor|I accepted the job and want to say thanks
the parents of my class|we need volunteers for the museum trip
""")

EMAIL_TEMPLATES = [
    "Write a polite e-mail to {0}. The point: {1}.",
    "Draft a short message to {0}: {1}.",
    "Help me write to {0}. I have to say that {1}. Keep it friendly.",
    "Compose a formal e-mail to {0} (subject line included). Content: {1}.",
]

CREATIVE = lines("""
Write a product description for a lamp that imitates the light of the sunset.
Write a slogan for a shop that repairs old radios.
Describe the colour blue to someone who has never seen it.
Write a short speech for the opening of a new playground.
Write an advertisement for a second-hand bicycle, honest but charming.
Invent a holiday and describe how people celebrate it.
Write a diary entry of a sailor on Magellan's ship.
Describe a busy market using all five senses.
Write a funny excuse for being late to a meeting.
Write instructions for making a sandwich as if it were a rocket launch.
Write a letter from a tree to the people in the park.
Imagine that gravity is switched off for ten seconds. Describe what happens in a classroom.
Write a museum label for a smartphone, as seen from the year 2300.
Create a character for a fantasy novel: a blacksmith with a secret.
Write a restaurant review by a very hungry bear.
Describe your ideal library in one paragraph.
Write a weather forecast for an imaginary island.
Write a tongue twister with the letter P.
Come up with an original riddle and give the answer on the last line.
Write three newspaper headlines from a town populated by cats.
Write a pep talk for someone who has to fold laundry.
Invent a sport that can be played in an elevator.
Write the rules of a simple card game for three players.
Write an obituary for a beloved coffee mug.
Describe a thunderstorm from the point of view of an ant.
Write a toast for a colleague who retires after forty years.
Write a short motivational text for the wall of a gym, without clichés.
Write the back-cover text of a crime novel set in a chocolate factory.
Imagine an interview with the first person to live on Mars. Write three questions and answers.
Write a thank-you card for a nurse.
Tell a joke about a snail and explain why it is funny.
Write a fairy tale in which the wolf is the hero.
Write a dating profile for a vacuum cleaner.
Invent a proverb about patience and explain what it means.
Write a monologue of a chess queen who is about to be sacrificed.
""")

# ------------------------------------------------------------------------------------------------ code

CODE_TASKS = lines("""
checks whether a string is a palindrome, ignoring spaces and case
returns the n-th Fibonacci number without recursion
counts how often each word occurs in a text
finds the two numbers in a list that add up to a given target
removes duplicates from a list but keeps the order
checks whether brackets in a string are balanced
merges two sorted lists into one sorted list
converts a Roman numeral to an integer
computes the greatest common divisor of two integers
reverses the words in a sentence
validates an e-mail address with reasonable rules
finds the longest common prefix of a list of strings
rotates a square matrix by 90 degrees
implements binary search
returns all prime numbers below n
converts seconds into a text such as "1 h 02 min 03 s"
flattens a nested list of any depth
computes the edit distance between two strings
generates a random password of a given length
checks whether two words are anagrams
counts the vowels in a text
computes the factorial of a number and rejects negative input
formats a number with thousands separators
finds the second largest value in an array
splits a list into chunks of a given size
computes a moving average over a window
parses a line of CSV with quoted fields
retries a network call three times with growing pauses
caches the results of an expensive function
groups a list of people by their year of birth
draws a triangle of asterisks of a given height
computes the distance between two points given by latitude and longitude
checks whether a year is a leap year
swaps keys and values of a map
capitalizes the first letter of every word
finds the missing number in a sequence from 1 to n
evaluates an arithmetic expression given in postfix notation
sorts a list of version numbers such as 1.10.2 correctly
limits how often another function may be called per second
converts a binary string to a decimal number
finds the longest word in a sentence
turns a title into a URL slug
computes the median of a list
simulates rolling two dice a thousand times and counts the sums
reads a file line by line and prints the lines that contain a given word
builds a binary tree and prints it in order
implements a stack with push, pop and minimum in constant time
compresses a string by counting repeated characters
transposes a table given as a list of rows
computes the digit sum of a number until one digit is left
calculates the number of working days between two dates
masks all but the last four digits of a card number
detects a cycle in a linked list
implements a queue with two stacks
finds the shortest path in a grid with walls
""")

CODE_LANGUAGES = ["Python", "JavaScript", "Java", "C++", "Go", "Python", "Rust", "TypeScript", "C", "Python", "Ruby", "C#"]

CODE_TEMPLATES = [
    "Write a {lang} function that {task}.",
    "In {lang}, I need a function that {task}. Please add comments.",
    "How would you write a function in {lang} that {task}?",
    "Give me a {lang} function that {task}, with two example calls.",
    "Implement the following in {lang}, no libraries: a function that {task}.",
    "Please write and test a {lang} function that {task}.",
]

CODE_QUESTIONS = lines("""
What is the difference between == and === in JavaScript?
Explain list comprehensions in Python with two examples.
What does the keyword static mean in C?
When should I use a hash map instead of an array?
What is a race condition? Show a small example.
How does garbage collection work in Java, in broad strokes?
What is the big-O complexity of quicksort, and when is it bad?
Explain pointers in C to someone who knows only Python.
What are unit tests good for, and what makes a good one?
What is dependency injection, without jargon?
How do I undo the last commit in git but keep my changes?
What is the difference between a shallow copy and a deep copy?
Explain async and await in JavaScript with a short example.
What is a REST API?
How can I make my Python script faster if it loops over a large list?
What does SOLID stand for in object-oriented design?
Why should I not store passwords in plain text, and what should I do instead?
What is a closure?
How do I read command line arguments in Python?
What is the purpose of a virtual environment in Python?
Explain the difference between an interface and an abstract class.
How does a hash table handle collisions?
What is a segmentation fault and how do I find its cause?
What is the difference between an inner join and a left join in SQL?
How do I center a div horizontally and vertically in CSS?
What is a regular expression that matches dates like 2024-05-17?
Explain what a Docker container is and how it differs from a virtual machine.
What does "immutable" mean in programming and why is it useful?
How do I handle exceptions properly in Java?
What is ownership in Rust?
When is recursion better than a loop?
What is a decorator in Python? Show how to write one that measures time.
How can I find out which process uses port 8080 on Linux?
What is the difference between an index and a primary key in a database?
What is continuous integration?
How would you explain binary numbers to a child?
What happens when I type a URL into the browser and press Enter?
Why is comparing floating-point numbers with == risky?
What are environment variables, and how do I set one in bash?
What is the difference between authentication and authorization?
""")

SQL_AND_SHELL = lines("""
Write an SQL query that returns the three customers with the highest total order value. Tables: customers(id, name), orders(id, customer_id, amount).
Write an SQL query that finds all employees who earn more than their manager. Table: employees(id, name, salary, manager_id).
Write an SQL statement that creates a table for books with title, author, year and a unique ISBN.
How do I count the rows per month in a table sales(date, amount) with SQL?
Write an SQL query that lists products that were never ordered.
Show me how to update one column from another table in PostgreSQL.
Write a query that finds duplicate e-mail addresses in a table users.
How do I find all files larger than 100 MB in a folder with a shell command?
Write a bash script that renames all .jpeg files in a folder to .jpg.
Give me a one-line shell command that counts the lines in all Python files below the current folder.
How do I replace a word in many files at once on Linux?
Write a bash script that makes a backup of a folder with the date in its name.
Explain this command: tar -xzvf archive.tar.gz -C /opt
Explain what chmod 755 script.sh does.
How do I show the ten largest folders in my home directory?
What does the pipe symbol do in a shell? Give two examples.
Write a crontab line that runs a script every weekday at 7:30.
How do I keep a program running after I log out of an SSH session?
Write a Makefile for a small C project with two source files.
Write a simple HTML page with a heading, a paragraph and a table with two rows.
Write a CSS rule that makes every second row of a table grey.
Write a regular expression for a German postal code and explain its parts.
Write a GitHub Actions workflow that runs the tests of a Node project on every push.
Write a Dockerfile for a small Flask application.
Show an example of a JSON object that describes a recipe.
""")

SNIPPETS = blocks(r"""
What does this Python code print, and why?

x = [1, 2, 3]
y = x
y.append(4)
print(x)
---
Find the bug in this function:

def average(values):
    total = 0
    for v in values:
        total += v
    return total / len(values) - 1
---
Explain this code line by line:

for i in range(1, 16):
    print("Fizz" * (i % 3 == 0) + "Buzz" * (i % 5 == 0) or i)
---
Why does this C program crash?

char *name;
scanf("%s", name);
printf("Hello %s\n", name);
---
Rewrite this loop as a list comprehension:

squares = []
for n in numbers:
    if n % 2 == 0:
        squares.append(n * n)
---
What is wrong with this JavaScript?

for (var i = 0; i < 3; i++) {
  setTimeout(() => console.log(i), 100);
}
---
Add type hints and a docstring to this function:

def area(w, h):
    return w * h
---
Convert this Python code to JavaScript:

def greet(name="world"):
    return f"Hello, {name}!"
---
Is this SQL query safe? Improve it.

query = "SELECT * FROM users WHERE name = '" + name + "'"
---
What is the time complexity of this function?

def has_duplicates(items):
    for i in range(len(items)):
        for j in range(i + 1, len(items)):
            if items[i] == items[j]:
                return True
    return False
---
Make this code more readable without changing what it does:

def f(a):
    return [b for b in a if b % 2 == 0 and b > 10 and str(b)[::-1] == str(b)]
---
This function should return the largest number, but returns 0 for negative lists. Fix it.

def largest(numbers):
    best = 0
    for n in numbers:
        if n > best:
            best = n
    return best
---
Write unit tests for this function:

def clamp(value, low, high):
    return max(low, min(value, high))
---
Explain what this regular expression matches: ^\d{3}-\d{4}$
---
Turn this recursive function into an iterative one:

def count_down(n):
    if n == 0:
        return
    print(n)
    count_down(n - 1)
---
What does this Java code print?

String a = "hi";
String b = new String("hi");
System.out.println(a == b);
System.out.println(a.equals(b));
---
This Go code never prints "done". Why?

ch := make(chan int)
ch <- 1
fmt.Println("done")
---
Simplify this condition:

if not (x < 5 or x > 10) == True:
    print("ok")
---
Translate this shell line into plain words: grep -r "TODO" src | wc -l
---
Refactor this code so that it does not repeat itself:

print("Total for January:", sum(jan))
print("Total for February:", sum(feb))
print("Total for March:", sum(mar))
---
What will this C++ code output, and is it good style?

int i = 5;
int j = i++ + ++i;
std::cout << j;
---
I get "TypeError: can only concatenate str (not int) to str" here. How do I fix it?

age = 30
print("I am " + age + " years old")
---
My loop never ends. Why?

n = 10
while n != 0:
    n = n - 3
---
Explain the difference between these two lines of CSS:

.box { width: 50%; }
.box { width: 50vw; }
""")

# ------------------------------------------------------------------------------------------------ maths

NAMES = ["Anna", "Ben", "Clara", "David", "Elif", "Farid", "Grace", "Hugo", "Ines", "Jonas", "Kira", "Liam", "Mei",
         "Noah", "Olga", "Pablo", "Rosa", "Samir", "Tara", "Viktor"]
GOODS = ["apples", "notebooks", "stickers", "marbles", "cookies", "candles", "postcards", "pencils", "oranges", "tickets"]


def maths(random):
    """Word problems and exercises; every kind a few times with other numbers, names and things."""
    out = []
    b = random.between

    def two_names():
        first = random.pick(NAMES)
        return first, random.pick([n for n in NAMES if n != first])

    for _ in range(4):
        (a, c), goods = two_names(), random.pick(GOODS)
        n, k = b(3, 9), b(4, 12)
        out += [
            f"{a} has {n * k} {goods} and wants to share them equally among {n} friends. How many does each friend get?",
            f"{a} buys {n} {goods} for {k} dollars each and pays with a 200-dollar note. How much change does {a} get?",
            f"{a} is {n} years older than {c}. Together they are {n + 2 * b(8, 20)} years old. How old is each of them?",
            f"A train travels {b(3, 9) * 40} kilometres in {b(2, 5)} hours. What is its average speed?",
            f"Solve for x: {b(2, 9)}x + {b(1, 20)} = {b(21, 99)}. Show your steps.",
            f"What is {b(3, 19) * 5} percent of {b(2, 30) * 20}?",
            f"Calculate {b(12, 99)} times {b(12, 99)} without a calculator and explain your method.",
            f"A rectangle is {b(4, 20)} cm long and {b(2, 15)} cm wide. Find its area and its perimeter.",
            f"Find the greatest common divisor of {b(4, 15) * 12} and {b(4, 15) * 18}.",
            f"Write {b(100, 999)} as a product of prime factors.",
            f"A jacket costs {b(4, 20) * 10} euros and is reduced by {b(1, 8) * 5} percent. What is the new price?",
            f"What is the next number in the sequence {n}, {n + k}, {n + 2 * k}, {n + 3 * k}? Explain the rule.",
            f"Convert {b(2, 14) * 15} minutes to hours and {b(2, 30)} kilometres to metres.",
            f"Two dice are rolled. What is the probability that the sum is {b(3, 11)}?",
            f"{a} runs {b(2, 9)} km on Monday, {b(2, 9)} km on Wednesday and {b(2, 9)} km on Saturday. What is the mean distance?",
            f"If {b(2, 6)} workers need {b(4, 12)} days to paint a house, how long do {b(7, 12)} workers need at the same pace?",
            f"Simplify the fraction {b(2, 9) * 12}/{b(10, 19) * 12}.",
            f"Find the roots of x^2 - {n + k}x + {n * k} = 0.",
            f"A savings account pays {b(1, 6)} percent interest a year. How much are {b(5, 40) * 100} dollars worth after {b(2, 4)} years?",
            f"Is {random.pick([91, 97, 119, 127, 143, 149, 161, 173])} a prime number? How can you tell?",
            f"The angles of a triangle are {b(30, 60)} and {b(40, 80)} degrees. How large is the third angle?",
            f"In a class of {b(20, 32)} children, {b(5, 12)} play football and {b(4, 9)} play tennis; {b(1, 3)} do both. How many do neither?",
            f"Round {b(1000, 9999) / 1000} to two decimal places and then to one.",
            f"{a} mixes {b(2, 5)} litres of juice with {b(1, 6)} litres of water. What share of the drink is juice?",
            f"Differentiate f(x) = {b(2, 9)}x^3 - {b(2, 9)}x^2 + {b(1, 20)}.",
            f"A ladder {b(4, 9)} metres long leans against a wall with its foot {b(2, 3)} metres away. How high does it reach?",
            f"How many different ways are there to arrange {b(3, 6)} books on a shelf?",
            f"It is {b(1, 12)}:{random.pick(['05', '20', '35', '50'])} now. What time will it be in {b(3, 11)} hours and {b(11, 55)} minutes?",
            f"{a} and {c} drive towards each other from towns {b(10, 40) * 10} km apart at {b(6, 9) * 10} and {b(5, 10) * 10} km/h. When do they meet?",
            f"A bag holds {b(2, 8)} red and {b(2, 8)} blue balls. What is the chance of drawing two red ones in a row?",
        ]
    out += lines("""
Explain the Pythagorean theorem and give one everyday use.
What is the difference between permutations and combinations?
Why is dividing by zero not allowed?
Show me how long division works with an example of your choice.
Prove that the square root of two is irrational, in words a high-school student understands.
What is a logarithm, and what is it good for?
How do I add fractions with different denominators?
Why is a negative number times a negative number positive?
What does the number pi stand for, and how can I estimate it at home?
Explain what a derivative is with the example of a moving car.
What is the Monty Hall problem, and why do so many people get it wrong?
How do I calculate a tip of fifteen percent in my head?
What is the difference between correlation and causation?
How can I check whether a large number is divisible by three?
Explain the idea of a mathematical proof by induction.
What is the sum of the numbers from 1 to 100, and what trick finds it quickly?
""")
    return out

# ------------------------------------------------------------------------------------------------ rewriting

REWRITE_FORMAL = lines("""
hey, can't make it tmrw, something came up. let's do it next week?
We screwed up your order, sorry about that, new one's on the way.
This report is a mess and I can't read half of it.
I need that file now, where is it?
Your idea is kind of cool but it'll cost way too much.
Just wanted to check if you guys got my CV.
The printer's dead again, somebody should do something.
Can you send me the numbers asap? Boss is getting nervous.
Thanks a ton for helping out yesterday, you saved my neck.
Nobody told me the meeting got moved, so I sat there alone.
The app keeps crashing and it drives me crazy.
No way we can finish this by Friday.
""")

REWRITE_SHORT = lines("""
Due to the fact that it was raining very heavily throughout the whole of the afternoon, we came to the decision that it would be better to cancel the picnic.
At this point in time we are not in a position to be able to give you an answer to the question that you asked us.
She is a person who always makes sure that she arrives a little bit earlier than the time that was agreed upon.
In the event that you should happen to have any further questions, please do not hesitate to get in touch with us at any time.
The reason why he did not come to the party is because he was feeling tired after having worked for the entire day.
It is absolutely essential that each and every member of the team reads the document in its entirety before the meeting starts.
There are many people who think that the museum, which is located in the centre of the town, is in need of renovation.
I am writing this e-mail in order to inform you about the fact that our office will be closed on the following Monday.
The machine has the ability to produce a total of four hundred bottles in a period of one hour.
What I would like to say is that, in my personal opinion, the film was a little too long in terms of its length.
""")

REWRITE_GRAMMAR = lines("""
Me and him goes to the market every sunday.
She don't has no time for play the piano.
Yesterday I have seen a very good film on the television.
The childrens was playing in there garden since two hours.
I look forward to hear from you, because I am very interesting in this job.
If I would have known it, I would came earlier.
Its a pity that the dog lost it's ball.
He is working here since 2015 and knows every thing about machines.
There is less people in the town as last year.
The informations you gave me was very helpfull.
I am agree with you, but we should discuss about the price.
Between you and I, the soup tasted badly.
My brother, which lives in Rome, is more older than me.
We was so exciting that we couldn't sleep no more.
Can you borrow me your pen? I forget mine at home.
""")

REWRITE_KIND = lines("""
Stop interrupting me all the time.
Your presentation was boring and far too long.
You never clean up after yourself in the kitchen.
That is the wrong answer. Try to think next time.
I don't want to work with you on this project.
We won't hire you because you have too little experience.
You are late again. This is unacceptable.
Your dog barks all night and nobody can sleep.
I hate the colour you chose for the living room.
You forgot to invoice the client. What were you thinking?
""")

REWRITE_OTHER = rows("""
Put this sentence into the passive voice:|The gardener watered the roses every evening.
Put this sentence into the active voice:|The window was broken by a ball that had been thrown by the boys.
Change this text to the past tense:|Mina opens the door, looks around and walks slowly into the empty hall.
Change this text to the future tense:|The shop closes at six and the owner counts the money.
Rewrite this sentence so that a child understands it:|The municipality intends to implement measures to mitigate traffic congestion.
Turn this statement into a question:|The last bus leaves at half past eleven.
Rewrite this in the first person:|He woke up before the alarm, made tea and listened to the rain.
Rewrite this as a news headline:|A baker from a small village has baked a loaf of bread that is twelve metres long.
Make this sentence more vivid:|The man walked through the old street.
Rewrite this without the letter "e", as well as you can:|The evening breeze felt pleasant.
Paraphrase this sentence:|Those who never make mistakes usually never try anything new.
Turn this into a numbered list:|First you soak the beans overnight, then you boil them for an hour, and at last you add salt and herbs.
Rewrite this text for a social media post:|Our farm shop opens again on Saturday. There will be fresh bread, eggs and the first strawberries.
Rewrite this as an instruction manual step:|You have to hold the red button until the lamp is green or else nothing happens.
Rewrite this in a more neutral tone:|The useless council has once more wasted our money on an ugly fountain.
Make this sound more confident:|I think I could maybe be a good fit for the position, if you don't mind.
Make this more diplomatic:|Your plan will fail because you ignored the costs.
Combine these sentences into one:|The lake is deep. It is also very cold. People swim there anyway.
Split this into three short sentences:|Although the road was closed because of the snow we decided to go on foot and reached the hut just before dark.
Rewrite this in British English:|The color of the apartment's elevator was gray, and the neighbors organized a party in the fall.
Replace the clichés in this sentence:|At the end of the day we gave it a hundred and ten percent.
Rewrite this as reported speech:|"I will call you tomorrow," said Nadia, "if the train is on time."
Add suitable punctuation:|after the concert we went home said lena who was still humming the last song
Rewrite this like a pirate would say it:|Good morning, could you tell me where the library is?
Turn these notes into two sentences:|meeting tue 9am, room 4, bring budget draft, Paul late
""")

# ------------------------------------------------------------------------------------------------ simple English

HARD_SENTENCES = lines("""
The committee resolved to defer its deliberations until supplementary evidence becomes available.
Passengers are requested to refrain from obstructing the doors prior to departure.
The tenant shall be liable for any damage arising from improper use of the premises.
Prolonged exposure to ultraviolet radiation is detrimental to the skin.
The remuneration is commensurate with the candidate's qualifications.
Heavy precipitation is anticipated in coastal areas, accompanied by intermittent gusts.
The medication should be administered orally twice daily, preferably following a meal.
Failure to comply with these regulations may result in the revocation of the permit.
The novel juxtaposes rural tranquillity with the turmoil of the metropolis.
Our subsidiary has ceased operations owing to insufficient demand.
The apparatus must be disconnected from the mains before any maintenance is undertaken.
The defendant was acquitted owing to a lack of conclusive evidence.
Subsequent to the merger, numerous positions were rendered redundant.
The bridge was constructed to withstand considerable seismic activity.
Applicants must furnish proof of residence issued within the preceding three months.
The researchers postulate that the migration was precipitated by a scarcity of food.
The contract may be terminated by either party upon thirty days' written notice.
Pedestrians are advised to exercise caution in the vicinity of the excavation.
The minister reiterated her commitment to alleviating the housing shortage.
The expedition was abandoned on account of adverse meteorological conditions.
Photovoltaic installations have proliferated as a consequence of declining production costs.
The patient exhibited symptoms consistent with an acute respiratory infection.
The museum endeavours to make its collection accessible to a heterogeneous public.
Inadequate ventilation facilitates the growth of mould in residential buildings.
The author's oeuvre is characterized by a pervasive sense of melancholy.
The enterprise intends to diversify its portfolio and to divest unprofitable assets.
The sediment accumulates over millennia and is eventually compacted into rock.
Electronic devices emitting audible signals are prohibited within the auditorium.
Eligible households may be entitled to reimbursement of heating expenses.
The spokesperson declined to elaborate on the circumstances of the resignation.
Cognitive performance deteriorates markedly in the absence of adequate sleep.
The vessel was compelled to seek refuge in the nearest harbour.
""")

SIMPLE_TEMPLATES = [
    "Translate this into simple English: {}",
    "Say this in plain words: {}",
    "Rewrite the following sentence so that a learner of English understands it.\n\n{}",
    "What does this mean in everyday language? \"{}\"",
    "Make this easy to read, with short words only:\n{}",
]

IDIOMS = lines("""
to bite the bullet
to let the cat out of the bag
a blessing in disguise
to burn the midnight oil
once in a blue moon
to hit the nail on the head
the elephant in the room
to pull someone's leg
to kick the can down the road
a storm in a teacup
to be on the fence
to cut corners
under the weather
to spill the beans
the tip of the iceberg
to beat around the bush
""")

IDIOM_TEMPLATES = [
    'What does the idiom "{}" mean?',
    'Explain "{}" to someone who is learning English, with an example.',
    'How could I say "{}" in plain words?',
    'Where does the expression "{}" come from, as far as it is known?',
]

# ------------------------------------------------------------------------------------------------ summaries

TEXTS = paragraphs("""
The town of Halbrück has closed its last coal-fired heating plant. From this winter on, most of the four thousand
households get their warmth from the river: a large heat pump takes heat out of the water and brings it to the houses
through old pipes. The plant cost eleven million euros. The mayor says heating bills will fall by about a tenth, but some
citizens doubt that and point to the price of electricity.

Octopuses have three hearts. Two of them pump blood through the gills, the third one sends it through the body. When an
octopus swims, the third heart stops beating, which may be the reason why these animals prefer to crawl. Their blood is blue
because it carries oxygen with copper instead of iron.

When Miriam opened her repair café, she expected a handful of visitors. On the first evening sixty people stood at the door
with toasters, lamps and one gramophone. Today twenty volunteers mend things every second Thursday. About two thirds of
what is brought can be saved. The café takes no money, but a jar for donations stands beside the coffee machine.

The new timetable of the city trams begins on Sunday. Line 4 will run every six minutes instead of every ten, and line 9
ends at the central station because of building work. Night trams will run on Fridays and Saturdays only. Tickets stay at
the same price until the end of the year.

Sourdough bread needs no yeast from a shop. Flour and water are left to stand for some days until wild yeasts and bacteria
have settled in the mixture. The bacteria make acids that give the bread its taste and keep it fresh. The baker keeps a part of
the dough as a starter for the next loaf. Some starters are said to be over a hundred years old.

In the spring, our school tried a week without grades. Pupils got written comments instead. Most teachers found that the
comments took more time but led to better conversations. About half of the parents wanted numbers back. The school will
repeat the trial in the autumn with two classes only.

Lighthouses once needed a keeper who lit the lamp every evening, wound up the clockwork and wrote down the weather. The work
was lonely, and families often lived for years on a rock in the sea. Today nearly all lighthouses run by themselves. Many
have been sold and serve as hotels or museums.

Walking for half an hour a day lowers the risk of heart disease, several large studies say. It does not have to be fast. What
counts is that one does it regularly. People who walk with a friend keep the habit for longer, and dogs are said to be the
strictest trainers of all.

The violin maker leaves the wood to dry for at least ten years. Spruce is used for the top, maple for the back and the sides.
Every piece is tapped and listened to before it is cut. One violin takes about two hundred hours of work. "I have never
made two that sound alike," she says, "and that is why I still come to the workshop every morning."

Our customer survey had 812 answers. Delivery times were praised by most, and the new packaging was called practical. The
telephone hotline, however, was criticized: callers waited for nine minutes on average, and one in five hung up. We will
hire four more people for the hotline and offer a chat from March on.

Bamboo is a grass and not a tree. Some kinds grow almost a metre a day. Because the stem is hollow and yet strong, it is used
for scaffolding, furniture and bicycles. After it has been cut, it grows again from the same root, so the soil
stays in place. The long way by ship to other continents makes its balance for the climate worse.

The football match ended two to two. Norden led by two goals after twenty minutes, then their captain was sent off. Süden
used the gap and scored once before and once after the break. In the last minute the goalkeeper of Norden held a penalty, and
four thousand spectators sang in the rain.

For a long time people thought that the deep sea was empty. In 1977 a diving boat found hot springs at a depth of two and a
half kilometres, and around them crabs, mussels and worms two metres long. They live without sunlight: bacteria make food
from chemicals in the hot water. The discovery changed ideas about where life is possible.

To use the community kitchen, put your name on the list at the door. Slots are two hours long. Wash everything that you
use, wipe the stove and take your waste with you. If a machine is broken, write it into the blue book. Children are welcome,
but must not be left alone in the room.

Tomorrow will start with fog in the valleys. Around noon the sun comes out, and temperatures rise to eighteen degrees. In the
evening clouds move in from the west and bring showers during the night. The weekend stays cool with a lot of wind on the coast.

The paper clip as we know it was never patented. Many inventors tried other shapes, with more or fewer bends, but the simple
double loop won. It holds well, does not tear the sheet and costs almost nothing. During the Second World War, people in
Norway wore paper clips on their clothes as a quiet sign that they stood together.

A small company in our street sells glasses made from old fishing nets. Divers collect the nets from the bottom of the harbour,
a factory melts them into grains, and printers turn the grains into frames. One net is enough for about four hundred pairs.
The founders admit that the glasses are dearer than others, but say that every pair can be given back and melted again.

Chess clocks were introduced because some players thought for hours about a single move. In a match in 1851 one player is said
to have fallen asleep while he waited. First people used sandglasses, then two clocks on one beam. Modern clocks add some
seconds after every move, so that nobody loses only because the hand was too slow.

Dear residents, on Wednesday between eight and twelve the water will be turned off in the houses 12 to 20. A valve has to be
replaced. Please fill some bottles beforehand and do not start washing machines. When the water comes back it may look brown for
a few minutes; let it run until it is clear.

Elephants can hear sounds that are too low for people. Such sounds travel for many kilometres through air and ground. With
them, herds arrange to meet at water holes. Researchers have put microphones into the savanna and now try to learn which
sound means what. They already know a kind of greeting and a warning about bees.

My first marathon went wrong from the start. I had slept badly, forgotten my gels and tied my shoes too tight. At kilometre
thirty I wanted to give up, when an old man on a folding chair called: "You look terrible, but you are still moving!" I laughed
so much that I forgot my legs. Five hours and two minutes, and I would do it again.

The city library lends not only books. Since last year people can also borrow drills, tents, telescopes and cake tins. The idea
came from a student who needed a drill for a single hole. There are now six hundred things on the shelves. The most popular
one is a machine that cleans carpets; the waiting time is five weeks.

Glaciers move, if slowly: most of them by less than a metre a day. They carry stones that scratch the rock below and leave
valleys in the shape of a U. Where a glacier ends, it drops what it carried and builds a wall of rubble. Lakes often form behind
such walls when the ice melts.

The theatre group "Red Door" looks for people over sixty who have never been on a stage. Rehearsals take place on Tuesdays at
four in the parish hall. The play, a comedy about a stolen cake, will be shown in June. Nobody has to learn long parts by heart,
and lifts home can be arranged.

Honey does not go bad. It contains so little water that bacteria dry out in it, and it is acid as well. Bees fan air over it with
their wings until it is thick enough, then close the cell with wax. Pots of honey have been found in very old tombs. If it turns
solid, a warm water bath makes it liquid again.

In a test, sixty office workers were allowed to choose when they begin to work. Half of them came at the same time as before. The
others spread out between six and eleven. After three months there were fewer sick days, and meetings had become shorter, as
the time when all were present was precious. Only the canteen complained.

The first photographs needed hours of light. That is why the oldest pictures of cities show empty streets: everyone who walked
by was too quick to leave a trace. In one picture of a boulevard a single man can be seen. He stood still because his shoes
were being polished.

We tested five rain jackets for a month. The cheapest one was tight only for the first week. Two were dry but so stiff that nobody
wanted to wear them. The best jacket came from a small firm; it weighs 300 grams and can be repaired at home. Its one fault is the
hood, which falls over the eyes of people with small heads.
""")

SUMMARY_TEMPLATES = [
    "Summarize this text in one sentence:\n\n{}",
    "{}\n\nGive me the three most important points as bullets.",
    "Find a fitting title for this text and explain your choice briefly.\n\n{}",
    "Summarize the following for a busy reader, at most 30 words.\n\n{}",
    "{}\n\nWhat is the main message?",
    "Read this text and write three questions that it answers:\n\n{}",
    "TL;DR please:\n\n{}",
]

# ------------------------------------------------------------------------------------------------ classification

REVIEWS = lines("""
The headphones arrived on time and sound great, but the left cushion fell off after a week.
Worst hotel I've ever stayed in. The shower was cold and the walls are paper-thin.
It's a book. It has pages. I read it.
My daughter hasn't put the puzzle down since Christmas!
The soup was lukewarm, yet the waiter was so charming that we forgave him.
I waited four weeks and got the wrong colour.
Does exactly what it says. No more, no less.
I expected little and was pleasantly surprised.
The update made the app slower, and now I can't find my playlists.
Five stars for the view, one star for the food.
Not bad for the price, I suppose.
This vacuum cleaner changed my life, I am not joking.
They promised a refund in May. It is October.
The film starts slowly but the last half hour is breathtaking.
I wouldn't give these shoes to my worst enemy.
The course was okay, although I knew most of it already.
What a lovely little bakery, we will come back every weekend.
Delivery was fast; the box, however, looked as if a truck had parked on it.
The chair is comfortable, sturdy and easy to assemble.
I fell asleep during the concert, and so did my neighbour.
Great camera, terrible manual.
The staff ignored us for twenty minutes.
""")

REVIEW_TEMPLATES = [
    'Is this review positive, negative or mixed? "{}"',
    "Classify the sentiment of the following sentence and give a reason in one line.\n{}",
    'Rate the mood of this customer from 1 (angry) to 5 (delighted): "{}"',
    "Sentiment (positive / negative / neutral)?\n\n{}",
]

SORTING = lines("""
Sort these words into fruits and vegetables: carrot, plum, leek, cherry, spinach, apricot, cucumber.
Which word does not belong, and why: violin, trumpet, cello, guitar, harp?
Is this sentence a fact or an opinion? "Winter is the most beautiful season."
Label each message as spam or not spam: 1) "You won a phone, click here!" 2) "Lunch at noon?" 3) "Cheap pills, no doctor needed."
Classify these animals as mammals, birds or reptiles: bat, gecko, penguin, whale, cobra, ostrich.
Which department should answer this message: sales, support or billing? "I was charged twice for my subscription."
Which department should answer this message: sales, support or billing? "My screen stays black after the update."
Put these events in chronological order: moon landing, invention of the telephone, fall of Constantinople, first e-mail.
Is the tone of this sentence formal or informal? "Gonna grab a bite, wanna come?"
Decide for each number whether it is even or odd: 14, 27, 102, 55, 8.
Tag each of these headlines with a topic (politics, sport, science, culture): "New telescope sees oldest galaxy", "Mayor resigns", "Festival opens with a silent film".
Which of these sentences contain a spelling mistake? a) I recieved your letter. b) The weather is nice. c) He definately knows.
Sort these activities by how much energy they burn, from least to most: reading, swimming, walking, running, sleeping.
Does this argument contain a logical fallacy? "Everyone buys this toothpaste, so it must be the best."
Which of the following are renewable: coal, wind, natural gas, sunlight, tides, uranium?
Is this question open or closed? "Did you like the film?"
Identify the part of speech of every word in: The quick fox quietly crossed the frozen river.
Group these cities by continent: Nairobi, Lima, Hanoi, Oslo, Toronto, Cairo, Quito, Seoul.
Which emotion does this message show? "I can't believe you kept the tickets a secret! I'm shaking!"
Is the following text more likely from a recipe, a contract or a novel? "Fold in the egg whites gently and chill for two hours."
Is the following text more likely from a recipe, a contract or a novel? "The parties agree to settle any dispute amicably."
Rank these job requirements from most to least important for a kindergarten teacher: patience, driving licence, creativity, first aid.
For each device, say whether it is input, output or both: mouse, speaker, touch screen, microphone, printer.
Tell me which of these numbers are primes: 21, 23, 29, 33, 37, 49, 51, 53.
Which of these are chemical changes: melting ice, burning wood, rusting iron, tearing paper, frying an egg?
Mark each sentence as past, present or future: She will sing. We walked home. They are reading. He had left.
Assign a priority (low, medium, high) to these tickets: "Typo on the about page", "Nobody can log in", "Export is slow on Mondays".
Decide whether each pair are synonyms or antonyms: hot/cold, begin/start, empty/full, rapid/quick.
""")

EXTRACTION = lines("""
Extract all dates from this text: The fair opens on 3 May, the awards are given on 9 May, and the last visitors leave on 12 May 2024.
Extract name, phone number and city as JSON: Hi, I'm Lara Moretti from Turin, call me at 555-0142.
List all the people mentioned: At the summit, Prime Minister Okafor met Dr. Lindqvist and the young activist Rana Aziz.
Pull the ingredients out of this sentence and put them in a list: For the sauce you need two onions, a tin of tomatoes, a pinch of sugar and olive oil.
What is the total in this receipt? Bread 3.20, milk 1.15, cheese 6.40, apples 2.25.
Turn this into a table with columns item, quantity, price: two chairs at 40 euros each, one desk at 120 euros and three lamps at 15 euros each.
Extract the order number and the problem: Hello, my order A-20817 arrived without the charger.
Which cities does this trip visit? We fly to Madrid, take the train to Seville, rent a car to Faro and fly home from there.
Convert this to JSON: title: The Long Winter; author: P. Hale; year: 1987; pages: 312.
Convert this JSON to a sentence: {"name": "Ravi", "age": 29, "job": "carpenter", "city": "Pune"}
Find the email addresses: Write to info@greenhill.example or, for press, to news@greenhill.example. No faxes please.
From this sentence, extract who, what, when and where: On Friday evening two students found a Roman coin near the river in York.
Make a CSV with the columns name and score from this: Mia got 17 points, Tom got 12 and Aylin got 20.
Extract the key skills from this CV line: Seven years of welding, certified forklift driver, basic Polish, team leader since 2021.
Convert this YAML to JSON:\\nname: demo\\nports:\\n  - 80\\n  - 443
Find all adjectives in this sentence: The tired old donkey carried a heavy basket of fresh green figs.
Extract the action items: Ana sends the draft by Monday. The logo is fine. Joe books the room. We liked the cake.
How many different animals are mentioned? The fox ran past the hen, the hen fled from the fox, and a goat watched both.
Put the following in alphabetical order: walnut, almond, pecan, cashew, hazelnut, pistachio.
Turn this paragraph into question and answer pairs: The pool opens at seven. Tickets cost four euros. Children under six swim for free.
Write the following times in 24-hour format: 7:15 am, noon, 3:40 pm, 11:05 pm.
Expand these abbreviations: ASAP, FAQ, RSVP, DIY, ETA.
What is the subject and what is the verb of this sentence? Behind the old mill flows a narrow stream.
Answer using only this text: The bakery closes at two on Saturdays and stays shut on Sundays. - Can I buy bread on Saturday at three?
Answer using only this text: Tickets can be returned up to 48 hours before the show. - It is Thursday noon and the show is on Friday night. Can I return mine?
""")

# ------------------------------------------------------------------------------------------------ reasoning, language

PUZZLES = lines("""
I have a fox, a chicken and a sack of grain and must cross a river with a boat that carries only one of them. How do I do it?
If all bloops are razzies and all razzies are lazzies, are all bloops lazzies? Explain.
A farmer has 17 sheep, and all but nine run away. How many are left?
What weighs more, a kilogram of feathers or a kilogram of steel?
Three switches outside a room control three bulbs inside. You may enter once. How do you find out which switch belongs to which bulb?
What has keys but cannot open locks?
Mary's father has five daughters: Nana, Nene, Nini and Nono. What is the name of the fifth?
How can you measure exactly four litres with a three-litre and a five-litre jug?
You see a boat filled with people, yet there isn't a single person on board. How is that possible?
If it takes five machines five minutes to make five widgets, how long do a hundred machines need for a hundred widgets?
Tom is taller than Eva. Eva is taller than Nils. Who is the shortest?
A bat and a ball cost 1.10 together. The bat costs one more than the ball. What does the ball cost?
What comes next: J, F, M, A, M, J, ...?
A clock shows a quarter past three. What is the angle between its hands?
You pass the runner in second place. What place are you in now?
How many times can you subtract 5 from 25?
Some months have 31 days. How many have 28?
Two fathers and two sons share three eggs, and each gets one. How can that be?
If yesterday was the day before Wednesday, what day is tomorrow?
I speak without a mouth and hear without ears. What am I? Explain the riddle.
There are twelve coins, one of them lighter. How often do you have to weigh them on a balance to find it?
Which is larger, one half of two thirds or two thirds of one half?
The day before yesterday I was 25, and next year I will be 28. How is that possible?
A snail climbs three metres up a ten-metre well every day and slips back two every night. When is it out?
""")

OPINION = lines("""
Should cities ban cars from their centres? Give arguments for both sides.
Is it better to read a book before or after watching the film based on it?
What are the pros and cons of remote work?
Do zoos do more good than harm?
Write a short argument for a four-day school week.
What speaks for and against electric scooters in cities?
Should voting be compulsory?
Is cash still needed? Discuss.
Discuss the advantages and disadvantages of growing up in a village.
Would you rather travel by train or by plane from Paris to Berlin? Weigh it up for me.
Are paper maps obsolete?
Give three reasons for and three reasons against a pet at the office.
What would be the effects of a world without advertising?
Should children get pocket money for chores?
Discuss whether museums should be free.
What are the benefits and risks of artificial intelligence in medicine?
Is it fair that famous athletes earn so much? Present two views.
Do we still need handwriting?
What would change if everybody had to do a year of community service?
Argue in favour of learning to cook at school.
Argue against fast fashion in one paragraph.
Should public transport be free of charge? What would be hard about it?
""")

SCIENCE_MORE = lines("""
What would happen if the Earth had no moon?
How do vaccines differ from antibiotics?
How do fish breathe under water?
What makes a rainbow, and why is it curved?
How are mountains formed?
What is the function of the liver?
How do plants know when to bloom?
What are tides and what causes them?
How do scientists measure the distance to a star?
What is the ozone layer and how is it doing today?
How do birds find their way during migration?
What are stem cells?
What happens in our body when we are afraid?
How does a caterpillar turn into a butterfly?
Where does the oil in the ground come from?
How do earthquakes start, and how are they measured?
What is the difference between weight and mass?
How do antibodies recognize a virus?
What are gravitational waves?
How does salt melt ice on the road?
What is an allergy?
How do spiders make silk?
Which materials conduct electricity, and why?
What is the role of fungi in a forest?
How long would it take to travel to Mars, and what makes the trip hard?
Describe an experiment with which children can see static electricity.
How does the body keep its temperature constant?
Why can geckos walk on ceilings?
What is a solar eclipse and how should I watch one?
What are black smokers on the sea floor?
What happens to the plastic that ends up in the sea?
How do trees transport water up to their leaves?
""")

COOKING = lines("""
What can I cook with eggs, spinach and leftover rice?
How do I make a simple tomato soup from scratch?
My cake always sinks in the middle. What am I doing wrong?
What is a good substitute for eggs in pancakes?
How long do I have to boil potatoes, and how do I know they are done?
Give me a recipe for lentil curry for four people.
What does "al dente" mean and how do I get pasta there?
How do I make salad dressing with what most people have at home?
Which herbs go well with fish?
How can I rescue an over-salted stew?
What is the difference between simmering and boiling?
Recipe for banana bread with little sugar, please.
How do I cut an onion without wasting half of it?
Explain how to poach an egg.
Can I freeze cooked pasta?
What are three quick lunches I can take to work without a microwave?
How do I make hummus creamy?
What should I serve with roasted pumpkin?
Suggest a dessert that needs no oven.
How do I know whether oil is hot enough for frying?
""")

TRAVEL_AND_MONEY = lines("""
What should I see in Istanbul if I have only one day?
Is the shoulder season a good time to visit Greece?
How does a credit score work?
What is the difference between gross and net salary?
What do I need to know before I rent a car abroad?
How can I avoid jet lag on a short business trip?
What is an index fund and why do people recommend it?
How do I split travel costs fairly in a group?
Name some towns in Italy that are less crowded than Venice and Florence.
What does travel insurance usually cover?
How do exchange rates affect my holiday budget?
What is a mortgage?
Which documents do I need to keep for taxes, in general?
What should I do if I lose my passport in a foreign country?
How do I find the cheapest day to fly?
What are good questions to ask before signing a rental contract?
Why do airlines overbook flights?
Explain the difference between a fixed and a variable interest rate.
How do I haggle politely at a market?
What does it mean to diversify investments?
""")

# ------------------------------------------------------------------------------------------------ several messages

# user | assistant | user
FOLLOW_UPS = rows("""
What is the capital of Australia?|The capital of Australia is Canberra.|Why not Sydney?
Recommend a good beginner's telescope.|A 70 mm refractor or a small tabletop Dobsonian is a good start.|What can I see with the second one?
How do I say "good morning" in Italian?|You say "buongiorno".|And "good night"?
Give me a name for my sailing boat.|How about "Second Wind"?|Nice, but too serious. Something funnier?
What is 15 times 12?|15 times 12 is 180.|And how could I have done that in my head?
Write one sentence about autumn.|Leaves drift over the quiet street like letters nobody has opened.|Now make it sound cheerful.
Which is healthier, tea or coffee?|Both are fine in moderate amounts; tea has less caffeine.|I have trouble sleeping. What should I drink after lunch?
My printer says "paper jam".|Switch it off, open the rear cover and pull the paper out gently along its path.|I did, and it still says the same. What now?
What does HTML stand for?|HTML stands for HyperText Markup Language.|Is it a programming language?
Suggest a movie for tonight.|If you like mysteries, try a classic whodunit with an ensemble cast.|I'd rather laugh. Any ideas?
Who wrote "Pride and Prejudice"?|Jane Austen wrote it; it was published in 1813.|What else did she write?
How tall is Mount Everest?|It is about 8,849 metres tall.|How do people breathe up there?
Write a Python function that adds two numbers.|def add(a, b):\\n    return a + b|Now let it take any number of arguments.
I want to lose some weight.|A small calorie deficit and regular movement work best in the long run.|What would a realistic goal for three months be?
What is the past tense of "to swim"?|The past tense is "swam", and the participle is "swum".|Give me a sentence with each.
Explain photosynthesis in one sentence.|Plants use sunlight to turn water and carbon dioxide into sugar and oxygen.|What do they need the sugar for?
I'm bored.|You could read, take a walk or try a new recipe.|It's raining and my fridge is empty. Something else?
Translate "library" into Spanish.|"Library" is "biblioteca" in Spanish.|Doesn't "librería" mean that?
How do I make tea?|Pour boiling water over the leaves and wait three to five minutes.|Should it be different for green tea?
What's a good password?|Use a long phrase of several unrelated words.|How am I supposed to remember one for every site?
Name a river in Africa.|The Nile flows through north-eastern Africa.|Name three more and the countries they run through.
Fix this sentence: He go to school.|He goes to school.|Why does "go" need the "es"?
What should I plant in March?|Peas, spinach and broad beans can be sown outdoors in March.|And indoors on the windowsill?
Tell me a joke.|Why did the bicycle fall over? It was two-tired.|Explain the joke to someone who is learning English.
I have an interview tomorrow.|Good luck! Read about the company and prepare two examples of your work.|What if they ask about my weaknesses?
How many litres are in a gallon?|A US gallon holds about 3.785 litres.|My recipe says half a British gallon. How much is that?
What is a noun?|A noun is a word for a person, a place, a thing or an idea.|Is "running" a noun then?
Write a title for an article about bees.|"Small Wings, Great Work: Why We Need Bees"|Shorter, please, at most four words.
How do I sort a list in JavaScript?|Call list.sort(); by default it sorts as strings.|That explains why 10 comes before 9. How do I sort numbers?
My dog eats grass.|Many dogs do so now and then, and it is usually harmless.|When should I see a vet?
What is the fastest land animal?|The cheetah, at over 100 kilometres per hour.|How long can it keep that up?
Plan a dinner for two.|Mushroom risotto, a green salad and pears with chocolate.|She is allergic to mushrooms.
Who painted the Mona Lisa?|Leonardo da Vinci painted it around 1503.|Why is it so famous?
How do I reset my router?|Hold the reset button for about ten seconds until the lights blink.|Will I lose my settings?
Give me a synonym for "happy".|"Cheerful" is one.|I need one that fits in a formal letter.
What is the speed of light?|About 299,792 kilometres per second.|Can anything be faster?
I wrote: "The data shows a clear trend." Is that right?|Yes, that is common; in formal texts some prefer "the data show".|Which one should I use in my thesis?
How do I start meditating?|Sit comfortably, set a timer for five minutes and watch your breath.|My thoughts keep wandering. Am I doing it wrong?
What is a leap second?|A second that is added to keep clocks in step with the Earth's rotation.|Does that cause problems for computers?
Describe a cat in three words.|Quiet, curious, proud.|Now describe a dog in the same way.
Can you recommend a language to learn?|Spanish is widely spoken and has regular spelling.|I'd like something more unusual, with a different script.
What is a budget?|A plan of what money comes in and what goes out.|Make a simple one for a family with 3,000 a month.
Write a line of dialogue for a villain.|"You call it theft. I call it early inheritance."|Great. What does the hero answer?
What do pandas eat?|Almost only bamboo.|How can such a big animal live on that?
How do I write a haiku?|Use three lines with five, seven and five syllables.|Write one about a traffic jam.
What's the weather like in Iceland in June?|Cool and bright, around ten to fifteen degrees, with very long days.|What should I pack?
My code gives an IndexError.|You are probably reading beyond the end of a list.|How do I find out where?
What does CPU mean?|It stands for central processing unit.|And how is a GPU different?
Suggest a hobby that costs nothing.|Birdwatching needs only your eyes and some patience.|How would I begin in a big city?
What is the plural of "mouse"?|The plural is "mice".|Also for the computer mouse?
I can't find my keys.|Go back in your mind to the last moment you had them in your hand.|They were in the fridge! How can I be less absent-minded?
How old is the universe?|About 13.8 billion years.|How do we know?
""")

# user | assistant | user | assistant | user
LONGER = rows("""
I want to bake a cake.|Lovely! What kind do you have in mind?|Something with lemons.|Then I suggest a simple lemon loaf.|What do I need for it, and how long does it bake?
Let's play a game: I think of an animal and you ask.|Good. Does it live in water?|No, it flies.|Is it active at night?|Yes. What is your guess?
I'm writing a story about a clockmaker.|Where does it take place?|In a small mountain town.|A strike of the tower clock could open the story.|Write that first paragraph.
My laptop is slow.|How old is it, and what do you use it for?|Four years, mostly for browsing.|Check how many programs start with the system, and how full the disk is.|The disk is 98 percent full. What can I delete safely?
Help me with my homework about volcanoes.|Gladly. What is the question?|Name the two main types of eruption.|Effusive and explosive eruptions.|Explain both in two sentences each.
I need a present for my brother.|What does he like?|He cooks a lot and lives in a tiny flat.|A good knife or a spice set takes little room.|He has both. Anything else below 30 euros?
Teach me a word in Japanese.|"Neko" means cat.|And dog?|"Inu" means dog.|How do I say that I like cats more than dogs?
What's for dinner?|What do you have at home?|Pasta, garlic, oil and a chilli.|That makes spaghetti aglio e olio.|Tell me how to cook it.
I've started running.|Great! How far do you run?|Two kilometres, three times a week.|A good base. Raise the distance by about ten percent a week.|When could I run ten kilometres at that rate?
Convert 50 miles to kilometres.|50 miles are about 80.5 kilometres.|And 120?|120 miles are about 193.1 kilometres.|Give me a rule of thumb so that I can do it myself.
""")

SYSTEMS = [
    "You are a helpful assistant.",
    "You are a patient teacher. Explain things simply and check for understanding.",
    "Answer in at most three sentences.",
    "You are a concise technical assistant.",
    "You are a friendly assistant that always gives one example.",
]

# ------------------------------------------------------------------------------------------------ more of all kinds

MORE = {
    "question": lines("""
What is the difference in taste between Arabica and Robusta beans, and where does it come from?
Which sports were part of the ancient Olympic Games?
How do referees use video in football today?
What is a fugue in music?
Who invented the saxophone, and what was it meant for?
Why do some songs stick in our heads for days?
What is the origin of the word "robot"?
How many letters are in the Hawaiian alphabet?
Which languages are written from right to left?
Is Esperanto still spoken, and by whom?
What is the meaning of the five Olympic rings?
How do judges score figure skating?
Why do tennis players count 15, 30, 40?
What is a hat trick?
How does a glider stay in the air for hours?
What was the first computer game?
Why is the Leaning Tower of Pisa leaning, and will it fall?
What are the seven wonders of the ancient world?
How old can bristlecone pines become?
What is the difference in climate on the two sides of a mountain range called, and what causes it?
How do cacti survive in the desert?
Which birds cannot fly, and how did that come about?
What do sharks do when they sense electricity?
Do trees communicate with each other?
How do snakes swallow prey larger than their head?
What is bioluminescence? Name a few animals that have it.
Why do cicadas appear only every 13 or 17 years?
Are bats really blind?
What do we know about the language of dolphins?
Where do monarch butterflies spend the winter?
Which metals are liquid near room temperature?
What is dry ice, and what is it used for?
Who first proposed that continents drift, and was he believed?
What does the James Webb telescope look for?
How is the age of a rock determined?
Could we ever live on the moon? What would be the hardest part?
Why are there no green stars?
What is the Kuiper belt?
What does it mean that a language has cases?
How did the months get their names?
"""),
    "health": lines("""
How much water should I drink a day, and does coffee count?
What is a healthy resting heart rate for an adult?
My shoulders hurt from sitting at a desk all day. Which stretches help?
How do I treat a small burn at home, and when should I see a doctor?
What are the signs of dehydration?
Is it better to stretch before or after running?
How can I tell a cold from the flu?
What happens in the body when I stop smoking? Give a short timeline.
Which foods contain a lot of iron?
What does blood pressure of 120 over 80 mean?
How do I protect my ears at a loud concert?
Are afternoon naps good for me?
What should a balanced breakfast contain?
How do I lift heavy boxes without hurting my back?
What can I do about hay fever in spring?
Why do muscles ache two days after training?
How often should I replace my toothbrush?
What is the difference between an optometrist and an ophthalmologist?
"""),
    "software": lines("""
How do I freeze the top row in a spreadsheet?
What does the formula =VLOOKUP do? Explain with a small example.
How can I turn a long list of names in one column into "last name, first name"?
How do I take a screenshot of only a part of the screen on Windows?
What is the quickest way to find and replace text in a document?
My phone's storage is full although I deleted photos. What else can take up space?
Which keyboard shortcuts are worth learning first?
How can I merge two PDF files without paying for software?
What is two-factor authentication, and how do I turn it on in general?
How do I recognize a phishing e-mail?
How do I make a pivot table that shows sales per region?
My headphones connect by Bluetooth but there is no sound. What can I check?
What is a cookie banner, and what happens if I refuse everything?
How do I move my contacts from an old phone to a new one?
Should I leave my laptop plugged in all the time?
What does a VPN do, and what does it not do?
How can I share a large video file with my family?
Explain what "the cloud" is to my grandfather.
Why does my video call freeze, and how can I make it more stable?
How do I write a formula that counts cells greater than 100?
"""),
    "work": lines("""
Give me three ways to answer the question "Where do you see yourself in five years?"
How do I write a good subject line?
What should a CV of a student without work experience contain?
Help me describe my job as a warehouse worker for a CV in three bullet points.
How do I run a brainstorming session so that quiet people speak as well?
What are SMART goals? Turn "get better at sales" into one.
How do I give negative feedback to a colleague I like?
Explain the Eisenhower matrix and sort these tasks: pay invoice, plan holiday, answer survey, fix broken server.
What is the point of a stand-up meeting?
Write a job advert for a part-time florist.
Write an out-of-office message for a week in the mountains without internet.
Suggest a structure for a presentation about last year's sales to people who are tired after lunch.
What questions should a start-up founder ask potential customers?
How do I estimate how long a task takes when I have never done it?
Write a short performance review for a reliable but very shy accountant.
How could a small bookshop attract customers in the slow summer weeks?
Come up with a name and a one-sentence pitch for a service that walks dogs at night.
Do a SWOT analysis for a food truck that sells dumplings.
What is a minimum viable product?
Explain the difference between revenue and profit to a lemonade seller aged nine.
"""),
    "learning": lines("""
Quiz me with five questions on European capitals and give the answers at the end.
Make flashcards (front and back) for eight basic terms of biology.
Explain the subjunctive in English with three examples.
When do I use "much" and when "many"?
What is the difference between "since" and "for"?
Give me six sentences with the present perfect.
How can I improve my English pronunciation on my own?
Teach me to count to ten in German, with a hint for the pronunciation.
Write a short reading text about a farm for a beginner in English, followed by three questions.
Explain commas before "and" with two examples.
Which tenses does "If I had known, I would have come" use?
What is a good way to learn the periodic table?
Create a fill-in-the-blank exercise about prepositions with five sentences.
How do I write a good introduction for an essay?
Give me an outline for an essay on the causes of poverty.
What is the difference between a primary and a secondary source?
How do I cite a website?
Turn these facts into a mnemonic: Mercury, Venus, Earth, Mars, Jupiter, Saturn, Uranus, Neptune.
Explain the structure of a five-paragraph essay.
Correct me as I try French: "Je suis allé au cinéma avec ma amie."
"""),
    "culture": lines("""
What is the plot of Romeo and Juliet in four sentences?
What makes a novel a gothic novel?
Explain the myth of Sisyphus and what it is used for today.
Who were the Muses in Greek mythology?
What distinguishes Impressionist paintings from earlier ones?
Describe a typical day of fasting during Ramadan.
What is celebrated at Diwali?
How is the Chinese New Year celebrated, and why does its date move?
What is the moral of the fable of the tortoise and the hare?
Which instruments give flamenco its sound?
What is a soap opera, and why is it called that?
How did jazz begin?
What is the difference in style between baroque and classical music?
Give me a spoiler-free introduction to Don Quixote.
What is the hero's journey? Show it with a film of your choice.
Explain the three-act structure to a new screenwriter.
What is satire? Write two satirical sentences about queueing.
Who were the Brothers Grimm and what else did they do besides collecting tales?
Why do we say "break a leg" to actors?
What is a kimono, and on which occasions is it worn?
"""),
    "home": lines("""
How often should I water a peace lily?
My basil has white spots. What is that and what can I do?
Which vegetables can I sow in September?
What is composting, and what must not go into the heap?
How do I attract butterflies to a small garden?
The door of my wardrobe squeaks. How can I stop it?
Which paint should I use for a damp bathroom?
How do I get the smell of smoke out of a second-hand sofa?
Why does my radiator stay cold at the bottom?
How can I keep moths away from my sweaters?
What size of rug fits a living room of four by five metres?
How do I measure a window for curtains?
What can I do against ants on the terrace without poison?
Is it worth repairing a ten-year-old washing machine?
How do I choose a mattress?
Our rabbit has stopped eating hay. What could be the reason?
How do I introduce a second cat to the household?
What does a hamster need in its cage?
How can I get an old dog used to stairs again?
Which houseplants are safe for cats?
"""),
    "imagine": lines("""
Pretend to be a medieval innkeeper and greet me as I come in from the storm.
You are a tour guide on the moon. Welcome your group.
Act as a strict but fair chess teacher and comment on the move 1. f3.
Be my sparring partner for a debate: I say that mornings are overrated. Answer me.
Imagine you are a fox. Describe your evening in a big city.
Answer as if you were a wise old tortoise: how do I become more patient?
Pretend I'm a customer in your flower shop who needs a bouquet for an apology. Begin the conversation.
Speak like a sports reporter and describe someone making tea.
You are the narrator of a nature film. Describe office workers at the coffee machine.
Play the role of a job interviewer for a position as a baker and ask me the first two questions.
Imagine that dinosaurs had never died out. What would a farm look like?
If colours had flavours, what would yellow, grey and purple taste like?
What would Leonardo da Vinci find most interesting in a modern airport?
Suppose people needed no sleep. How would cities change?
Describe the world from the point of view of a raindrop.
Pretend to be a sceptical scientist and review my plan to catch sunlight in a jar.
Act as a travel agent for time travellers and offer me three trips.
Imagine a school where children teach the adults. Describe the first lesson.
"""),
    "format": lines("""
Answer with one word only: what is the chemical symbol of gold?
Explain tides in exactly two sentences.
Describe a rainbow without using the name of any colour.
Give me the days of the week in reverse order.
Write the alphabet with a short animal name for each letter.
Make a table of three planets with diameter, number of moons and length of a day.
Answer yes or no, then explain in one line: is a whale a fish?
Write a sentence in which every word begins with the letter S.
List the months with 30 days, separated by semicolons.
Explain gravity as a dialogue of four lines.
Describe the taste of a lemon in exactly ten words.
Give the steps for brushing one's teeth as a numbered list with no more than five steps.
Write "good luck" in five languages as a Markdown table.
Write a paragraph about bread that contains the words river, clock and velvet.
Say something nice about Mondays in the form of a recipe.
Name one advantage and one disadvantage of glass bottles, each in under eight words.
Draw a small house with ASCII characters.
Write the numbers from one to ten as words, one a line.
"""),
}

# ------------------------------------------------------------------------------------------------ held out

HELDOUT = {
    "question": lines("""
Where does the pattern of a zebra come from, and is it the same for every animal?
Who decides what counts as a planet, and why was Pluto dropped?
At what temperature do Celsius and Fahrenheit thermometers show the same number?
How do submarines dive and surface again?
Tell me about the history of the bicycle in a few sentences.
What makes chili peppers hot, and why does milk help?
Who was Hypatia of Alexandria?
How are pearls formed inside oysters?
What is sonar used for besides finding submarines?
Can plants grow on the International Space Station?
What was the Library of Alexandria famous for?
Is the Dead Sea really dead?
How did sailors find their longitude before satellites?
What does a conductor of an orchestra actually do?
"""),
    "explain": lines("""
Explain how a windmill grinds grain.
What is meant by a "carbon footprint"? Put it simply.
I'd like to understand how a vending machine recognizes coins.
Explain dramatic irony with a scene you make up.
How do tailors take measurements for a suit, and why in that order?
What is peer review, and where are its limits?
Explain to a teenager how a pension works.
What is meant by the phrase "survivorship bias"?
How does a theremin make sound without being touched?
Explain the offside rule in football to a person who has never watched a match.
"""),
    "howto": lines("""
I burnt milk in a saucepan. How can I rescue the pan?
How should I wrap a round present neatly?
Tell me how to whistle with two fingers.
My bathroom mirror fogs up after every shower. What can I do against it?
What's a quick way to peel a lot of garlic?
How can I teach my parrot its first word?
How do I build a simple bird feeder out of a milk carton?
What do I have to do to restring a ukulele?
Which steps are needed to digitize old cassette tapes?
How can I keep my glasses from slipping down my nose?
"""),
    "advice": lines("""
My sister and I inherited a cottage and disagree about selling it. How can we talk about it calmly?
I was asked to be godfather but I'm not religious. What do I answer?
Our kitten hides under the bed since we moved. What would you advise?
I'm the only vegetarian at a barbecue next week. How do I handle it without fuss?
After ten years in one company I've lost interest. Should I stay until I find something?
My choir wants me to sing a solo and I have stage fright. Any suggestions?
"""),
    "list": lines("""
Six objects an archaeologist of the future might find in our kitchens, please.
Which dances can a beginner learn in one evening? List some.
Name four mountains that are also volcanoes.
I'm looking for nicknames for a very slow horse. Ideas?
What belongs in a toolbox of a person who has just moved out of their parents' home?
Collect eight words that describe the sound of water.
Suggest some quiet hobbies for a long ship voyage.
"""),
    "code": lines("""
Write a Python generator that yields the Collatz sequence starting at a given number.
In Java, show me a method that shuffles a deck of 52 cards.
How can I pretty-print an XML document in Python using only the standard library?
Write a C function that counts the set bits of an unsigned integer.
Show a Kotlin data class for a song and sort a list of songs by duration.
Write JavaScript code that highlights the table row under the mouse pointer.
Implement Conway's Game of Life for one generation in Python.
What does "fencepost error" mean? Show one in a for loop.
Write an SQL query over visits(page, visitor, seen_at) that gives the most visited page of each day.
Use awk to print the third column of a file whose second column is "open".
In Go, write a program that prints the current time every second until Ctrl-C is pressed.
What is tail recursion, and which languages optimize it?
Here is a line of Python: print(sorted("banana", key="banana".count)). What is its output, and why?
"""),
    "maths": lines("""
A recipe for 6 muffins needs 150 g of flour. How much flour do 20 muffins need?
The sum of three consecutive integers is 111. Which integers are they?
A cyclist climbs 600 metres over a distance of 8 kilometres. What is the average gradient in percent?
How many diagonals does a regular octagon have?
A phone loses 20 percent of its value every year. After how many years is it worth less than half?
What is the volume of a cylinder with a radius of 3 cm and a height of 10 cm?
Compute 2 to the power of 15 by repeated squaring.
In a raffle with 500 lots there are 12 prizes. How likely is it to win with a single lot?
Integrate 6x squared plus 4 from 0 to 2.
Nadia reads 18 pages in 27 minutes. How long does a book of 240 pages take her?
"""),
    "rewrite": lines("""
Make this announcement friendlier: "Bicycles left in the hallway will be thrown away."
Rewrite for a formal invitation: we're having drinks on the roof thursday, come by if you want
Correct the mistakes: Each of the players have their own lockers, but nobody of them are locked properly.
Shorten to ten words or fewer: It would be greatly appreciated if all of the visitors could kindly refrain from feeding the ducks in the pond.
Turn this complaint into a constructive suggestion: "The canteen food always tastes like cardboard."
Rewrite in the style of a fairy tale: The technician replaced the battery of the smoke alarm.
Change to the plural: The wolf has lost its tooth and looks for a dentist.
Put into indirect speech: "Don't touch the wet paint," the caretaker told us.
"""),
    "simple_english": lines("""
In plain English, please: Gratuities are customarily included in the quoted tariff.
What is this notice trying to say? "Unaccompanied minors shall not be granted admittance."
Make it simple enough for a beginner: The orchard's yield diminished because of an unseasonable frost.
Simplify: The legislation was enacted to curtail speculative acquisition of farmland.
Reword without difficult words: His candour occasionally bordered on tactlessness.
"""),
    "dialogue": lines("""
Let a ghost and an estate agent argue about the value of a haunted house. Ten lines at most.
Two penguins debate whether flying is overrated. Write what they say.
Write the phone call in which an inventor offers a toaster company a toaster that sings.
A night watchman meets a sleepwalking millionaire in a museum. Write their exchange.
A ferry captain explains to an impatient cyclist why the crossing is delayed. Write it as a play.
"""),
    "creative": lines("""
Write a lullaby for a baby elephant.
Invent the legend behind a crooked church tower.
Describe a desert night in exactly three sentences.
Begin a science-fiction story with the words "The soup was listening."
Write a sonnet-like poem of fourteen lines about an escalator.
Write a rumour that spreads through an orchestra, as told by the triangle player.
Give a short sports commentary of a race between two raindrops on a window.
"""),
    "email": lines("""
Ask a museum by e-mail whether my evening class may sketch in the sculpture hall.
Write to my cousin in Canada that I finally passed the driving test at the fourth attempt.
I need a few lines to the beekeeping association: I want to borrow their honey extractor in June.
Write a message to my tenants that the chimney sweep comes next Thursday between nine and eleven.
"""),
    "summary": [
        "Summarize in two sentences:\n\n" + text for text in paragraphs("""
The old ropeway on the Falkenstein has been standing still since 2009. Now a cooperative of 340 citizens has bought it for the
price of one euro. Before the cabins can go up again, the cables have to be changed and the valley station needs a new roof. The
cooperative hopes to open in two years and has already sold season passes to people who trust it.

Sea otters hold hands when they sleep, so that they do not drift apart. They also wrap themselves in kelp, which works like an
anchor. Their fur is the thickest of all animals, since they lack a layer of fat. To keep it waterproof, they spend hours each
day combing it with their paws.
""")] + [
        "What did the author learn, in your own words?\n\n" + text for text in paragraphs("""
I used to keep every manual, cable and carton. When the cellar flooded, I carried forty boxes out into the yard and had to
open each one. In thirty-eight of them there was nothing that I had missed in ten years. I kept two. Now, whenever I want to
store something, I ask myself whether I would carry it through the water.

For my first exhibition I framed thirty drawings, because I thought that more was better. People walked past them as one walks
past shop windows. A friend took twenty-four of them off the wall one night. The next day visitors stood in front of
the remaining six and talked.
""")],
    "classification": lines("""
Which of these sentences is sarcastic? A: "Wonderful, another flat tyre." B: "Wonderful, we won the cup."
Group these instruments by the way they make sound: oboe, xylophone, banjo, tuba, tambourine, harpsichord.
Would you file this message under praise, complaint or request? "Could the pool perhaps open an hour earlier in July?"
For each word tell me whether it is countable: rice, chair, advice, cloud, furniture, bread.
Guess the genre of the book from its first line: "The body in the boathouse had been wearing someone else's shoes."
Arrange by size: molecule, galaxy, cell, planet, atom, city.
"""),
    "extraction": lines("""
Get the flight number, the gate and the boarding time out of this: Passengers of flight KX 418 please go to gate B7, boarding starts at 16:25.
List every measurement in the text: The raft was four metres long, carried 350 kilograms and drifted at two knots for nine days.
Turn into a JSON array of objects with name and role: Yusuf directs, Ingrid writes the music, Pilar sews the costumes.
Which of the two speakers is against the plan? Hanna: "A bypass would finally calm the village." Otto: "And ruin the meadow behind it."
"""),
    "reasoning": lines("""
Four people must cross a dark bridge with one lamp. They need 1, 2, 5 and 10 minutes, and at most two can cross at a time. What is the shortest total time?
Every fruit in the basket is either ripe or green. No pear is green. What can you say about the pears?
I have a daughter and each of my sons has as many brothers as sisters. How many sons do I have at least?
The shop is left of the bank, the bank is left of the school, and the cinema is right of the school. Which building is second from the left?
A candle burns 3 cm an hour, another one 2 cm an hour. The first is 24 cm long, the second 18 cm. Which goes out first?
"""),
    "opinion": lines("""
Would the world be better with one common language? Weigh the matter up.
Make the case for letting teenagers sleep longer on school days.
Is a handwritten letter still worth the effort?
Should supermarkets be obliged to give away unsold food? Two views, please.
"""),
    "compare": lines("""
In what way do an owl and a hawk hunt differently?
Cork or screw cap: which is better for wine, and why?
Contrast a monologue with a soliloquy.
Put marathon running and sprinting side by side: muscles, training, food.
"""),
}

HELDOUT_CHATS = rows("""
What's the largest desert on Earth?|Antarctica, if cold deserts count; otherwise the Sahara.|Why does a place full of ice count as a desert?
Write an opening line for a ghost story.|Nobody had wound the music box, and still it played.|Give me the second line, from the view of the child.
How can I thicken a sauce?|Stir in a little starch mixed with cold water and let it bubble.|Now it has lumps. Can it be saved?
Which instrument is easiest to carry?|A harmonica fits into any pocket.|How do I get a clean single note out of it?
What's the Swedish word for thanks?|It is "tack".|How do I answer when somebody says that to me?
I ran out of printer ink.|You could save the document as a PDF and print it at a copy shop.|It's Sunday evening and I need it at seven. Other options?
My tomato leaves turn yellow.|Too much water or too little nitrogen are the usual reasons.|The soil is dry as dust. What follows from that?
""")


# ------------------------------------------------------------------------------------------------ putting together

def single(category, texts):
    """One user message each; a list holds other wordings of the same request."""
    return [(category, [[("user", word)] for word in ([text] if isinstance(text, str) else text)]) for text in texts]


def chat(category, row):
    texts = [part.replace("\\n", "\n") for part in row]
    return (category, [[(("user", "assistant")[i % 2], text) for i, text in enumerate(texts)]])


def code_prompts():
    out = []
    for i, task in enumerate(CODE_TASKS):
        for use in range(2):  # twice, in another language and other words
            language = CODE_LANGUAGES[(i * 5 + use * 7) % len(CODE_LANGUAGES)]
            if use == 1 and language == CODE_LANGUAGES[(i * 5) % len(CODE_LANGUAGES)]:
                language = "Kotlin"
            out.append(CODE_TEMPLATES[(i + use * 3) % len(CODE_TEMPLATES)].format(lang=language, task=task))
    return out


def rewriting_prompts():
    out = spread(REWRITE_FORMAL, ["Rewrite this in a formal tone: {}", "Make this sound professional:\n\n{}",
                                  'How would I say this politely at work? "{}"'])
    out += spread(REWRITE_SHORT, ["Shorten this sentence without losing its meaning: {}", "Make this concise:\n{}",
                                  "Cut this down to the essentials: {}"])
    out += spread(REWRITE_GRAMMAR, ["Correct the grammar: {}", "Fix all mistakes in this sentence and explain them: {}",
                                    "Is this correct English? If not, correct it.\n\n{}"])
    out += spread(REWRITE_KIND, ['Say this in a kinder way: "{}"', "Rephrase this so that it does not hurt anyone: {}"])
    return out + [f"{task} {text}" if i % 3 else f"{task}\n\n{text}" for i, (task, text) in enumerate(REWRITE_OTHER)]


def training(random):
    out = []
    out += single("question", WHY + HISTORY + FACTS + CONCEPTS_AGAIN + SCIENCE_MORE)
    out += single("question", spread(PEOPLE, PEOPLE_TEMPLATES) + spread(PEOPLE, PEOPLE_TEMPLATES[2:] + PEOPLE_TEMPLATES[:2]))
    out += single("explain", spread(MECHANISMS, MECHANISM_TEMPLATES) + spread(CONCEPTS, CONCEPT_TEMPLATES))
    out += single("explain", spread(DEFINE, DEFINE_TEMPLATES) + spread(IDIOMS, IDIOM_TEMPLATES))
    out += single("compare", [COMPARE_TEMPLATES[i % len(COMPARE_TEMPLATES)].format(*pair) for i, pair in enumerate(COMPARE)])
    out += single("howto", spread(HOWTO, HOWTO_TEMPLATES) + COOKING)
    out += single("advice", ADVICE + TRAVEL_AND_MONEY)
    out += single("plan", PLANS)
    out += single("list", spread(LISTS, LIST_TEMPLATES))
    out += single("creative", spread(POEMS, POEM_TEMPLATES) + spread(STORIES, STORY_TEMPLATES) + CREATIVE)
    out += single("dialogue", [DIALOGUE_TEMPLATES[i % len(DIALOGUE_TEMPLATES)].format(*d) for i, d in enumerate(DIALOGUES)])
    out += single("email", [EMAIL_TEMPLATES[i % len(EMAIL_TEMPLATES)].format(*e) for i, e in enumerate(rows("\n".join(EMAILS)))])
    out += single("code", code_prompts() + CODE_QUESTIONS + SQL_AND_SHELL + SNIPPETS)
    out += single("maths", maths(random))
    out += single("rewrite", rewriting_prompts())
    out += single("simple_english", spread(HARD_SENTENCES, SIMPLE_TEMPLATES))
    out += single("summary", spread(TEXTS, SUMMARY_TEMPLATES))
    out += single("classification", spread(REVIEWS, REVIEW_TEMPLATES) + SORTING)
    out += single("extraction", [text.replace("\\n", "\n") for text in EXTRACTION])
    out += single("reasoning", PUZZLES)
    out += single("opinion", OPINION)
    for category, texts in MORE.items():
        out += single(category, texts)
    out += [chat("chat", row) for row in FOLLOW_UPS + LONGER]
    return out


def heldout():
    out = []
    for category, texts in HELDOUT.items():
        out += single(category, texts)
    return out + [chat("chat", row) for row in HELDOUT_CHATS]


def trigrams(messages):
    words = re.findall(r"[a-z0-9]+", " ".join(text for _, text in messages).lower())
    return {tuple(words[i:i + 3]) for i in range(max(1, len(words) - 2))}


def similarity(a, b):
    return len(a & b) / len(a | b)


class Kept:
    """What was taken so far, searchable by trigram."""

    def __init__(self):
        self.sets, self.of_trigram = [], {}

    def nearest(self, grams):
        near = {i for gram in grams for i in self.of_trigram.get(gram, ())}
        return max((similarity(grams, self.sets[i]) for i in near), default=0.0)

    def add(self, grams):
        for gram in grams:
            self.of_trigram.setdefault(gram, []).append(len(self.sets))
        self.sets.append(grams)


def take(prompts, kept, limit, others=None, leak=1.0):
    out, refused = [], 0
    for category, wordings in prompts:
        for messages in wordings:
            grams = trigrams(messages)
            if kept.nearest(grams) < limit and not (others and others.nearest(grams) >= leak):
                kept.add(grams)
                out.append((category, messages))
                break
        else:
            refused += 1
    return out, refused


def write(path, prompts, prefix, random, with_system):
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for category, messages in prompts:
            messages = [{"role": role, "content": text} for role, text in messages]
            if with_system and random.below(16) == 0:
                messages.insert(0, {"role": "system", "content": random.pick(SYSTEMS)})
            digest = hashlib.sha256(json.dumps(messages, sort_keys=True).encode()).hexdigest()[:10]
            row = {"id": f"{prefix}-{digest}", "category": category, "messages": messages}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def main():
    folder = os.path.dirname(os.path.abspath(__file__))
    random = Random(SEED)
    kept, kept_out = Kept(), Kept()
    train, refused = take(training(random), kept, NEAR_DUPLICATE)
    held, refused_out = take(heldout(), kept_out, NEAR_DUPLICATE, kept, LEAK)
    random.shuffle(train)  # so that the first N lines are a fair mix
    random.shuffle(held)
    write(os.path.join(folder, "train.jsonl"), train, "train", random, True)
    write(os.path.join(folder, "heldout.jsonl"), held, "heldout", random, True)
    print(f"train.jsonl: {len(train)} prompts ({refused} near-duplicates refused)")
    print(f"heldout.jsonl: {len(held)} prompts ({refused_out} too close to others refused)")
    return 0 if len(train) >= 1500 and len(held) >= 120 else 1


if __name__ == "__main__":
    sys.exit(main())
