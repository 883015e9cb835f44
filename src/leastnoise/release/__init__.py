"""What is published: answers to questions, and the language in which they are asked."""
