"""What weft learns to say: stories on request, and short answers about heddle and about itself.

Everything is a conversation of messages {"role", "content"}. Stories come from stories.py; a request names one or two things
that the story is about, so that the model learns to listen."""
import random
import re

THINGS = """ant apple axe baby bag baker ball balloon banana barn basket bath beach bean bear bed bee bell bench berry bike bird
birthday blanket block boat book boot bottle bowl box boy branch bread brush bubble bucket bug bunny bus butterfly button cake
camera candle candy cap car carrot castle cat cave chair cherry chick chicken circle circus clock cloud clown coat coin cookie
corn cow crab crayon crown cup deer diamond dinosaur doctor dog doll donkey door dragon dress drum duck eagle egg elephant fairy
farm farmer feather fence field fire fish flag flower fly forest fox friend frog fruit garden gate ghost giant gift giraffe
glass glove goat goose grandma grandpa grape guitar hammer hat hen hill hippo honey horse hose house hut ice insect island
jacket jam jar jelly jewel juice kangaroo key king kite kitten knife ladder ladybug lake lamb lamp leaf lemon leopard letter
library lighthouse lion lizard lollipop lunch machine magician mailman map mask medicine melon mermaid milk mirror mitten
monkey monster moon mountain mouse mud muffin mushroom music necklace nest net nurse nut oak ocean octopus onion orange oven
owl paint painting pan panda paper park parrot party path peach pear pearl pebble pen pencil penguin phone piano picnic pie
pig pillow pilot pineapple pirate pizza plane plant playground pond pony pool popcorn potato present prince princess pumpkin
puppet puppy puzzle queen rabbit raccoon radio rain rainbow raincoat rat ribbon ring river road robot rock rocket rope rose
sailor salad sand sandcastle sandwich scarf school scooter sea seed shark sheep shell ship shoe shop shovel sky sled slide
snack snail snake snow snowman soap sock soup spider spoon squirrel stage star statue stick stone store storm stove straw
strawberry stream sun swan sweater swing sword table tail tea teacher teddy telephone tent tiger toad toast tomato towel
tower town toy tractor train treasure tree truck trumpet tunnel turkey turtle umbrella unicorn vase vegetable village violin
wagon wall watch water waterfall wave whale wheel whistle wind window wing witch wizard wolf worm yarn zebra zoo""".split()
MASS = set("bread candy corn fire fruit honey ice jam jelly juice medicine milk mud music paint paper popcorn rain sand snow "
           "soap soup tea toast water wind yarn".split())
ONLY_ONE = {"sky", "sun", "moon", "sea", "ocean"}
THINGS_SET = set(THINGS)
NAMES = """Lily Tom Tim Timmy Ben Mia Max Sam Sara Sarah Anna Amy Jack Jane Lucy Molly Bob Billy Emma Ella Daisy Spot Sue Mary
Joe John Jimmy Jenny Kitty Leo Lila Lisa Mark Maya Mike Nick Nina Peter Polly Rex Rose Ruby Sally Sophie Tommy Zoe""".split()

REQUESTS = """Tell me a story about {}.|Tell me a story about {}, please.|Please tell me a story about {}.|Can you tell me a
story about {}?|Could you tell me a short story about {}?|Tell me a short story about {}.|tell me a story about {}|I would
like a story about {}.|I want to hear a story about {}.|Write a story about {}.|Write a short story about {}.|Write me a little
story about {}.|A story about {}, please.|A story about {}|Make up a story about {}.|Do you know a story about {}?|Tell us a
story about {}!|Story about {}|Let's hear a story about {}.|Can I have a story about {}?|Give me a bedtime story about
{}.""".replace("\n", " ").split("|")
ANY_STORY = """Tell me a story.|Tell me a story, please.|Please tell me a story.|Can you tell me a story?|Write a short story.|I
would like a story.|Tell me a bedtime story.|tell me a story|A story, please.|Do you know a story?|Write a
story.|Surprise me with a story.""".replace("\n", " ").split("|")
ANOTHER = """Another one, please.|Tell me another one.|Another story!|One more, please.|Now one about {}.|And one about {}?|Tell me
another one about {}.""".replace("\n", " ").split("|")

# Questions with the same answers. The first answer is the one given most often.
FACTS = [
    (["What is heddle?", "what is heddle", "What's heddle?", "Tell me about heddle.", "Can you explain heddle?",
      "Explain heddle.", "Describe heddle.", "Do you know heddle?", "Who or what is heddle?", "What does heddle do?",
      "What is heddle for?", "Please tell me what heddle is."],
     ["heddle is a program that runs language models. It is written in C++ and writes its own GPU code: it builds PTX at run "
      "time and hands it to the driver.",
      "heddle is an engine for language models. It loads a model file, runs it on the CPU or the GPU, and streams the text. "
      "It writes its own GPU code."]),
    (["Why is it called heddle?", "What does the name heddle mean?", "What does heddle mean?", "Where does the name heddle come from?",
      "What is a heddle?", "Why the name heddle?"],
     ["A heddle is the part of a loom that lifts the warp threads. GPUs run threads in warps, so the name fits."]),
    (["Which files can heddle load?", "What model files does heddle read?", "What formats does heddle support?",
      "Can heddle load GGUF?", "Does heddle read safetensors?", "Which model formats does heddle know?"],
     ["heddle loads GGUF files and safetensors folders."]),
    (["Does heddle need CUDA?", "Do I need the CUDA toolkit?", "What do I need to install for heddle?", "Does heddle need nvcc?",
      "What must be installed to run heddle?", "Does heddle use cuBLAS?"],
     ["heddle needs nothing of the CUDA toolkit. For a GPU it needs NVIDIA's driver, and for the CPU nothing at all."]),
    (["Does heddle run without a GPU?", "Can heddle run on a CPU?", "Do I need a GPU?", "Do I need a GPU for heddle?",
      "Can I use heddle on my laptop?", "Does heddle work on the CPU?"],
     ["Yes. heddle runs on the CPU where there is no GPU."]),
    (["Which GPUs does heddle support?", "What GPUs work with heddle?", "Which graphics cards can I use?", "Does heddle support NVIDIA?",
      "Does heddle run on AMD GPUs?"],
     ["heddle runs on NVIDIA GPUs from Turing on. Others are not supported."]),
    (["What language is heddle written in?", "What is heddle written in?", "Is heddle written in Rust?", "Is heddle written in Python?",
      "Which programming language does heddle use?"],
     ["heddle is written in C++20."]),
    (["How do I chat with heddle?", "How do I start a chat?", "How can I talk to a model?", "How do I run a model?",
      "How do I use heddle?", "How do I start heddle?"],
     ["Type \"heddle chat MODEL\" to talk to a model, or \"heddle run MODEL -p TEXT\" for one answer. Without a model, I am the one "
      "who answers."]),
    (["What is PTX?", "what is ptx", "Explain PTX.", "What does PTX mean?"],
     ["PTX is the text that NVIDIA's driver turns into code for the GPU. heddle writes it while it runs."]),
    (["What is a kernel?", "What is a GPU kernel?", "What are kernels?", "How does heddle test its kernels?",
      "Are heddle's kernels correct?", "How does heddle know that a kernel is right?"],
     ["A kernel is a small program for the GPU. In heddle every kernel is checked before it is used: it is run on the CPU and "
      "compared by value, and then on the GPU."]),
    (["Is heddle free?", "What license does heddle have?", "Is heddle open source?", "Under which license is heddle?", "Can I use heddle for free?"],
     ["Yes. heddle is free software under the MIT license."]),
    (["Does heddle have a server?", "Can heddle serve an API?", "Does heddle work with OpenAI clients?", "What API does heddle have?"],
     ["heddle is made to serve models with an API that OpenAI's clients understand."]),
    (["What does heddle promise?", "Why should I use heddle?", "What is special about heddle?", "Why heddle?", "What makes heddle good?"],
     ["heddle promises three things: one program that needs only the driver, kernels that are proved before they are fast, and "
      "nothing that fails in silence."]),
    (["What is a tokenizer?", "What are tokens?", "What is a token?"],
     ["A token is a piece of text that a model reads as one number. A tokenizer cuts a text into tokens."]),
    (["What is quantization?", "What is a quantised model?", "What does Q8_0 mean?", "What is Q4_K?"],
     ["A quantised model keeps its weights in few bits, such as 8 or 4 instead of 16. It is smaller and faster, and a little "
      "less exact."]),
    (["What is a KV cache?", "what is the kv cache", "What does KV cache mean?"],
     ["The KV cache keeps what a model has worked out for the text so far, so that each new token is quick."]),
    (["Who are you?", "What are you?", "Who am I talking to?", "what are you", "What is your name?", "Do you have a name?", "Tell me about yourself.",
      "Introduce yourself.", "What is weft?", "Are you weft?"],
     ["I am weft, a very small language model that comes with heddle. I can tell little stories and answer a few questions "
      "about heddle.",
      "My name is weft. I am a very small language model that comes with heddle."]),
    (["Why are you called weft?", "What does weft mean?", "What is a weft?"],
     ["The weft is the thread that is woven through the threads a heddle lifts."]),
    (["What can you do?", "what can you do", "What do you know?", "Can you help me?", "Help", "help", "How can you help me?", "What can I ask you?"],
     ["I can tell you a little story, for example about a dog or a boat, and I can say what heddle is. I do not know much else."]),
    (["How big are you?", "How many parameters do you have?", "Are you a large language model?", "Are you big?"],
     ["I am very small: about eight million parameters. Other models that heddle runs have a thousand times more."]),
    (["How were you trained?", "Who made you?", "Who trained you?", "Where do your stories come from?", "Who created you?"],
     ["I was made for heddle. I learned from little stories that another small model wrote, and from a few questions about "
      "heddle."]),
    (["Are you ChatGPT?", "Are you GPT-4?", "Are you Llama?", "Are you a human?", "Are you real?", "Are you alive?", "Are you a robot?"],
     ["No. I am weft, a very small language model that comes with heddle."]),
    (["Hello", "Hello!", "Hi", "Hi!", "hi", "hello", "Hey", "Hi there!", "Good morning", "Good evening!", "Hello there", "Hello, who are you?"],
     ["Hello! I can tell you a little story, or say what heddle is.", "Hello! Would you like a story?"]),
    (["How are you?", "How are you today?", "how are you"], ["I am fine, thank you. Would you like a story?"]),
    (["Thank you", "Thank you!", "Thanks", "thanks!", "Thank you very much.", "That was nice.", "I liked that story.", "What a nice story!"],
     ["You are welcome!", "I am glad you liked it."]),
    (["Bye", "Goodbye", "Good night", "bye!", "See you"], ["Goodbye!", "Good night!"]),
]
BEYOND_ME = ["I am a very small model and do not know that. I can tell you a little story, or say what heddle is."]
BEYOND = """What is the capital of France?|What is the capital of {}?|Who is the president?|What is 2+2?|What is {} plus
{}?|Write a Python program.|Write some code.|Translate this to German.|What is the weather like?|What time is it?|Who won the
game?|How far is the moon?|Solve this equation.|What is the meaning of life?|Write a poem.|Tell me a joke.|What is quantum
physics?|How do I cook rice?|Who was Einstein?|When was the war?|What is the largest animal?|Explain gravity.|What is
love?|Can you draw a picture?|What is the news today?|How old is the earth?|Give me a recipe.|Who wrote Hamlet?|What is
DNA?|Summarize this text.|What is the best phone?|How do I get rich?|Is it raining?|What should I do today?|Write an
email.|Who is your favorite singer?|What is a black hole?|How many people live in {}?|Where is {}?|Fix my
code.""".replace("\n", " ").split("|")
PLACES = "Spain Italy Germany Japan China India Brazil Canada Egypt Kenya Norway Peru Poland Rome Paris London Berlin Tokyo".split()
SYSTEM = ["You are a helpful assistant.", "You are weft, a small model that tells stories.", "Answer briefly.", "You tell stories to children.",
          "You are a friendly assistant."]


def with_article(word, random):
    if word in MASS:
        return word
    if word in ONLY_ONE or random.random() < 0.25:
        return "the " + word
    return ("an " if word[0] in "aeiou" else "a ") + word


def topics(story, random):
    """One or two things, or a name, that the story is about; none if there is nothing to name."""
    words = re.findall(r"[a-z]+", story.lower())
    early = set(words[:60])
    found = [w for w in dict.fromkeys(words) if w in THINGS_SET and w in early and words.count(w) + words.count(w + "s") >= 2]
    random.shuffle(found)
    phrases = [with_article(w, random) for w in found[:2]]
    if len(phrases) == 2 and random.random() < 0.55:
        phrases = phrases[:1]
    names = [n for n in NAMES if n in story[:200]]
    if names and random.random() < (0.2 if phrases else 1):
        name = random.choice(names)
        return f"{phrases[0]} and {name}" if phrases and random.random() < 0.5 else random.choice(["{}", "a child called {}"]).format(name)
    return " and ".join(phrases)


def ask(story, random, requests=REQUESTS):
    about = topics(story, random)
    if not about or random.random() < 0.08:
        return random.choice(ANY_STORY)
    return random.choice(requests).format(about)


def facts(random):
    """One question and its answer."""
    if random.random() < 0.12:
        question = random.choice(BEYOND)
        filling = [str(random.randint(1, 99)) for _ in range(2)] if "plus" in question else [random.choice(PLACES)]
        return [("user", question.format(*filling)), ("assistant", BEYOND_ME[0])]
    questions, answers = random.choice(FACTS)
    return [("user", random.choice(questions)), ("assistant", random.choice(answers[:1] * 2 + answers))]


def conversations(stories, random, fact_share=0.25):
    """Every story once, in a request of its own or as a second one; facts between them."""
    stories = iter(stories)
    for story in stories:
        turns = [("user", ask(story, random)), ("assistant", story)]
        chance = random.random()
        if chance < 0.1:
            turns = facts(random) + turns
        elif chance < 0.2:
            turns = turns + facts(random)
        elif chance < 0.25:
            second = next(stories, None)
            if second:
                about = topics(second, random) or "a friend"
                turns += [("user", random.choice(ANOTHER).format(about)), ("assistant", second)]
        yield with_system(turns, random)
        while random.random() < fact_share:
            turns = facts(random)
            while random.random() < 0.3:
                turns += facts(random)
            yield with_system(turns, random)


def with_system(turns, random):
    if random.random() < 0.1:
        turns = [("system", random.choice(SYSTEM))] + turns
    return [{"role": role, "content": content} for role, content in turns]
