// Keeps the page up to date while the daemon works. Every page is complete without it.
"use strict";
