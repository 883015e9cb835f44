# Reads tables that leastnoise wrote as CSV, with R alone: no packages.
#
#   source("read_release.R")
#   tables <- read_release("tables")          # a folder of `leastnoise export --format csv`
#   tables <- read_release("out")             # or of `leastnoise release --tables csv`
#   names(tables)                             # "1-age" "2-age_sex" ...
#   tables[["2-age_sex"]]                     # a data frame: attributes, count, std_error, low, high
#   attr(tables, "privacy")                   # the privacy statement, in one line
#
# Attributes are texts; as.numeric() turns those into numbers that are numbers.

read_release <- function(folder) {
  inside <- file.path(folder, "tables")
  if (dir.exists(inside)) folder <- inside
  files <- list.files(folder, pattern = "\\.csv$", full.names = TRUE)
  notes <- file.path(folder, "README.txt")
  if (length(files) == 0 || !file.exists(notes)) {
    stop(folder, " has no tables as CSV; write them with: leastnoise export RELEASE --out FOLDER --format csv")
  }
  tables <- lapply(files, read_table)
  names(tables) <- sub("\\.csv$", "", basename(files))
  attr(tables, "privacy") <- readLines(notes, n = 1, encoding = "UTF-8", warn = FALSE)
  tables
}

# One table. Texts that look like formulas have an apostrophe in front in the file; it is taken away.
read_table <- function(file) {
  table <- read.csv(
    file, colClasses = "character", check.names = FALSE, na.strings = character(), encoding = "UTF-8", comment.char = ""
  )
  names(table) <- as_it_was(names(table))
  numbers <- which(names(table) %in% c("count", "sum"))[1]:ncol(table)
  for (k in seq_along(table)) {
    if (!(k %in% numbers)) {
      table[[k]] <- as_it_was(table[[k]])
    } else if (names(table)[k] == "insecure") {
      table[[k]] <- tolower(table[[k]]) == "true"
    } else if (names(table)[k] != "note") {
      table[[k]] <- as.numeric(table[[k]]) # an empty cell is a number that was suppressed: NA
    }
  }
  table
}

as_it_was <- function(texts) sub("^'('*[-=+@\t\r])", "\\1", texts, useBytes = TRUE)
